/**
 * Whether a data directory holds what its chain says: headers by their hashes, what stands in them by their roots, the state by the tries
 * and these by the root, the history and all that blocks made by executing them again. Nothing is written.
 */
import type { ChainSpec } from '../chainspec/types.ts'
import type { Engine } from '../evm/engine.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { decodeHeader } from '../primitives/header-codec.ts'
import { keccak256 } from '../primitives/keccak.ts'
import { equalBytes } from '../primitives/words.ts'
import { tailKey } from '../storage/blocks/block-codec.ts'
import { recover } from '../storage/blocks/recover.ts'
import { openStore } from '../storage/blocks/store.ts'
import { META } from '../storage/database/meta.ts'
import type { Database } from '../storage/database/types.ts'
import type { StoredBody } from '../storage/types.ts'
import { checkCode, checkHeads, checkHeights, checkMomentary } from './beside.ts'
import { chainDown, checkBlock, checkLeftOver } from './blocks.ts'
import { openExecutor } from './execute.ts'
import { checkFetched } from './fetched.ts'
import { createFindings, type Findings } from './findings.ts'
import { sumHistory } from './history.ts'
import { checkLedger } from './ledger.ts'
import { checkSomeState, checkState } from './state.ts'
import { checkUndo } from './undo.ts'
import { type Counts, newCounts, type Verifying } from './verifying.ts'

export type VerifyOptions = {
  readonly database: Database
  readonly chain: ChainSpec
  readonly engine: Engine
  /** So many blocks and accounts, chosen by chance, and the newest block; undefined: all. */
  readonly sample: number | undefined
  /** [0, 1). */
  readonly random: () => number
  /** Now and then, and whether to go on. */
  readonly onStep: (step: Step) => boolean
}
export type Step = {
  readonly part: string
  readonly done: number
  readonly total: number | undefined
}

export type Verified = {
  readonly findings: Pick<Findings, 'count' | 'kept'>
  readonly counts: Readonly<Counts>
  readonly head: number
  /** The whole chain, or as much as was asked for; false: it was stopped. */
  readonly isDone: boolean
}

/** @throws {DatabaseError} {StoredChainError} where not even the heads can be read */
export async function verify(options: VerifyOptions): Promise<Verified> {
  const { database, chain, engine, sample } = options
  finishFold(database)
  const store = openStore(database)
  const findings = createFindings(store.isLazy())
  const verifying: Verifying = { database, store, chain, engine, findings, counts: newCounts() }
  const parts = partsOf(verifying, sample === undefined ? undefined : options)
  let isDone = true
  for (const [part, run] of parts) {
    let done = 0
    for await (const total of run()) {
      done++
      if (done % STEPS !== 0) continue
      isDone = options.onStep({ part, done, total: total ?? undefined })
      if (!isDone) break
      // A signal is heard in between.
      await new Promise(setImmediate)
    }
    if (!isDone) break
  }
  const { number: head } = store.durableHead()
  return { findings, counts: verifying.counts, head, isDone }
}
/** Between two looks at the clock. */
const STEPS = 64

/** What a kill cut off is finished first, as a start does it: half of a block is nothing to hold to anything. */
function finishFold(database: Database): void {
  const isCut = [META.folding, META.foldingTrie].some(
    (key) => database.get('meta', key) !== undefined,
  )
  if (isCut) recover(database, undefined)
}

type Part = readonly [name: string, run: () => Iterable<Total> | AsyncIterable<Total>]
/** How many there are, where it is known. */
type Total = number | undefined

type Sampling = { readonly sample: number; readonly random: () => number }

/** In this order: what an execution reads is looked at before it. */
function partsOf(verifying: Verifying, given: VerifyOptions | undefined): readonly Part[] {
  const sampling: Sampling | undefined =
    given === undefined ? undefined : { sample: given.sample!, random: given.random }
  const isLazy = verifying.store.isLazy()
  const chain = chainParts(verifying, sampling)
  const few = sampling?.sample ?? Number.POSITIVE_INFINITY
  const all = (...parts: readonly Part[]) => (sampling === undefined ? parts : [])
  return [
    ['heads', () => once(() => checkHeads(verifying))],
    ...all(['code', () => once(() => checkCode(verifying))]),
    ['blocks', chain.blocks],
    ...(isLazy ? [] : stateParts(verifying, sampling)),
    ...(isLazy ? ([['fetched state', () => checkFetched(verifying)]] as const) : []),
    ['execution', chain.execution],
    ...(isLazy ? [] : ([['undo', () => checkUndo(verifying, few)]] as const)),
    ...all(
      ['branches', () => once(() => checkHeights(verifying))],
      ['flashblocks', () => once(() => checkMomentary(verifying))],
    ),
    ['ledger', () => checkLedger(verifying)],
  ]
}

function stateParts(verifying: Verifying, sampling: Sampling | undefined): readonly Part[] {
  return [
    sampling === undefined
      ? ['state', () => checkState(verifying)]
      : ['state', () => once(() => checkSomeState(verifying, sampling))],
  ]
}

/** Down the headers, then up again with the state. */
function chainParts(verifying: Verifying, sampling: Sampling | undefined) {
  const { store } = verifying
  const top = store.durableHead().number
  const fold = store.foldHead().number
  const first = store.isLazy()
    ? store.lazyStart()!.oldestBlock
    : Number(verifying.chain.genesisNumber)
  const isChosen = chosen(sampling, { first, top, fold })
  /** Of the blocks above the folded one: no index has them. */
  const unfolded = new Map<number, Bytes>()

  function* blocks(): Generator<Total, void> {
    let oldest = top
    let transactions = 0
    for (const block of chainDown(verifying)) {
      const isFolded = block.number <= fold
      oldest = block.number
      if (!isFolded) unfolded.set(block.number, block.hash)
      if (isChosen(block.number)) {
        const body = checkBlock(verifying, block, isFolded)
        // One that is damaged is told already: what leads into it is not left over.
        if (isFolded) transactions += body?.transactions.length ?? 0
      }
      yield top - first + 1
    }
    const isDamaged = verifying.findings.count > 0
    if (sampling === undefined && !isDamaged) checkLeftOver(verifying, { oldest, transactions })
  }

  async function* execution(): AsyncGenerator<Total, void> {
    const sums = yield* sampling === undefined && !store.isLazy() ? sumHistory(verifying) : none()
    const executor = openExecutor(verifying, sums)
    const from = store.oldestState() + 1
    for (let number = from; number <= top; number++) {
      if (!isChosen(number)) continue
      const hash = number <= fold ? store.hashOfNumber(number) : unfolded.get(number)
      const header = hash && wholeHeader(verifying, hash)
      const body = hash && wholeBody(verifying, hash)
      if (hash !== undefined && header !== undefined && body !== undefined)
        await executor.check({ number, hash, header }, body)
      yield top - from + 1
    }
  }
  return { blocks, execution }
}

function* none(): Generator<undefined, undefined> {}

function* once(run: () => void): Generator<Total, void> {
  run()
  yield 1
}

/** What is above the folded block stands on what is below it: all of that is looked at. */
function chosen(
  sampling: Sampling | undefined,
  { first, top, fold }: { readonly first: number; readonly top: number; readonly fold: number },
): (number: number) => boolean {
  if (sampling === undefined) return () => true
  const { sample, random } = sampling
  const numbers = new Set<number>([top])
  for (let at = 0; at < sample; at++) numbers.add(first + Math.floor(random() * (top - first + 1)))
  return (number) => number > fold || numbers.has(number)
}

/** undefined: it is damaged, which was told. */
function wholeHeader({ store }: Verifying, hash: Bytes): Header | undefined {
  const row = store.header(hash)
  return row !== undefined && equalBytes(keccak256(row), hash) ? decodeHeader(row) : undefined
}

function wholeBody({ store, findings }: Verifying, hash: Bytes): StoredBody | undefined {
  const isDamaged = [hash, tailKey(hash)].some((key) => findings.isNamed({ where: 'bodies', key }))
  return isDamaged ? undefined : store.body(hash)
}
