/**
 * Checks a data directory: headers by their hashes, contents by their roots, the tries by the state
 * root, flat state by the tries.
 * History and results are checked by executing blocks again. Nothing is written, except that a
 * persist pass that was cut off is finished first.
 */
import type { ChainSpec } from '../chainspec/types.ts'
import type { Engine } from '../evm/engine.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { decodeHeader, type Header } from '../primitives/header.ts'
import { keccak256 } from '../primitives/keccak.ts'
import { equalBytes } from '../primitives/words.ts'
import { tailKey } from '../storage/blocks/block-codec.ts'
import { recover } from '../storage/blocks/recover.ts'
import { openStore } from '../storage/blocks/store.ts'
import { META } from '../storage/database/meta.ts'
import type { Database } from '../storage/database/types.ts'
import type { StoredBody } from '../storage/types.ts'
import { checkCode, checkHeads, checkHeights, checkPartialHeaders } from './beside.ts'
import { chainDown, checkBlock, checkLeftOver } from './blocks.ts'
import { checkFetched, checkSomeState, checkState } from './check-state.ts'
import { openExecutor } from './execute.ts'
import { createFindings, type Findings } from './findings.ts'
import { sumHistory } from './history.ts'
import { checkLedger } from './ledger.ts'
import { checkUndo } from './undo.ts'
import { type Counts, newCounts, type Verifying } from './verifying.ts'

export type VerifyOptions = {
  readonly database: Database
  readonly chain: ChainSpec
  readonly engine: Engine
  /** Number of random blocks and accounts, besides the newest block; undefined: all. */
  readonly sample: number | undefined
  /** Random number in [0, 1). */
  readonly random: () => number
  /** Called from time to time; returns whether to continue. */
  readonly onStep: (step: Step) => boolean
}
export type Step = {
  readonly part: string
  readonly done: number
  readonly total: number | undefined
}

export type Verified = {
  readonly findings: Pick<Findings, 'count' | 'retained'>
  readonly counts: Readonly<Counts>
  readonly head: number
  /** Whether everything that was requested was checked; false: the run was stopped. */
  readonly isDone: boolean
}

/**
 * Checks a data directory.
 * @throws {DatabaseError} {StoredChainError} when even the heads cannot be read
 */
export async function verify(options: VerifyOptions): Promise<Verified> {
  const { database, chain, engine, sample } = options
  finishPersist(database)
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
      // The pause lets signal handlers run.
      await new Promise(setImmediate)
    }
    if (!isDone) break
  }
  const { number: head } = store.durableHead()
  return { findings, counts: verifying.counts, head, isDone }
}
const STEPS = 64

/**
 * Finishes a persist pass that a kill cut off, as a start does. Half a block cannot be compared
 * with anything.
 */
function finishPersist(database: Database): void {
  const isCut = [META.persisting, META.persistingTrie].some(
    (key) => database.get('meta', key) !== undefined,
  )
  if (isCut) recover(database, undefined)
}

type Part = readonly [name: string, run: () => Iterable<Total> | AsyncIterable<Total>]
/** Total number of steps, if known. */
type Total = number | undefined

type Sampling = { readonly sample: number; readonly random: () => number }

/** Returns the checks in order: the data that an execution reads is checked first. */
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
      ['flashblocks', () => once(() => checkPartialHeaders(verifying))],
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

/** Returns two passes: down the headers, then up again with the state. */
function chainParts(verifying: Verifying, sampling: Sampling | undefined) {
  const { store } = verifying
  const top = store.durableHead().number
  const persisted = store.persistedHead().number
  const first = store.isLazy()
    ? store.lazyStart()!.oldestBlock
    : Number(verifying.chain.genesisNumber)
  const isChosen = chosen(sampling, { first, top, persisted })
  /** Hashes of the blocks above the persisted one, which no index has. */
  const unpersisted = new Map<number, Bytes>()

  function* blocks(): Generator<Total, void> {
    let oldest = top
    let transactions = 0
    for (const block of chainDown(verifying)) {
      const isPersisted = block.number <= persisted
      oldest = block.number
      if (!isPersisted) unpersisted.set(block.number, block.hash)
      if (isChosen(block.number)) {
        const body = checkBlock(verifying, block, isPersisted)
        // A damaged body was reported before, and no leftover check follows.
        if (isPersisted) transactions += body?.transactions.length ?? 0
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
      const hash = number <= persisted ? store.hashOfNumber(number) : unpersisted.get(number)
      const header = hash && intactHeader(verifying, hash)
      const body = hash && intactBody(verifying, hash)
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

/**
 * Returns the choice of blocks. All blocks above the persisted one are chosen, because each needs
 * the state of the one below.
 */
function chosen(
  sampling: Sampling | undefined,
  {
    first,
    top,
    persisted,
  }: { readonly first: number; readonly top: number; readonly persisted: number },
): (number: number) => boolean {
  if (sampling === undefined) return () => true
  const { sample, random } = sampling
  const numbers = new Set<number>([top])
  for (let at = 0; at < sample; at++) numbers.add(first + Math.floor(random() * (top - first + 1)))
  return (number) => number > persisted || numbers.has(number)
}

/** Returns the header; undefined: the damaged row was reported before. */
function intactHeader({ store }: Verifying, hash: Bytes): Header | undefined {
  const row = store.header(hash)
  return row !== undefined && equalBytes(keccak256(row), hash) ? decodeHeader(row) : undefined
}

function intactBody({ store, findings }: Verifying, hash: Bytes): StoredBody | undefined {
  const isDamaged = [hash, tailKey(hash)].some((key) => findings.isNamed({ where: 'bodies', key }))
  return isDamaged ? undefined : store.body(hash)
}
