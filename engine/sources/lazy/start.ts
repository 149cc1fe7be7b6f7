/**
 * A lazy state from upstreams: begun at the newest block that most of them have where there is none, gone on with where their state
 * reaches back to our head, begun anew where it does not, or where the chain was reorganised deeper than we can undo. At a start it
 * is done before any other thread is there, while the node runs by its keeper.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Hex } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { openStore } from '../../storage/blocks/store.ts'
import type { Database } from '../../storage/database/types.ts'
import { beginLazy, lazyDirectory, unfoldedHashes } from '../../storage/lazy/begin.ts'
import { checkStart, LazyStartError } from '../../storage/lazy/start.ts'
import type { Beginning, Start, StoredHead, StoreReader } from '../../storage/types.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import type { Point } from '../upstream/tracker-types.ts'
import type { CallOptions } from '../upstream/transport.ts'
import { agreeOnBlock, agreeOnHead, type Doubt, wrong } from './agree.ts'
import { readStart } from './read-start.ts'

export type LazyBegun = {
  /** `begun`: the directory was empty. `anew`: `why` says what became of the old state. `on`: it goes on from its head. */
  readonly status: 'begun' | 'anew' | 'on'
  readonly head: StoredHead
  readonly why: string | undefined
  /** Of upstreams that most others contradict. */
  readonly doubts: readonly Doubt[]
  /** What it was begun with; undefined: it goes on. */
  readonly start: Beginning | undefined
}

/** `depth`: how far below its head its state can be read, in the mode that the node is in; undefined: it gives none. */
export type LazySource = { readonly upstream: Upstream; readonly depth: number | undefined }

export type PlanLimits = {
  readonly chain: ChainSpec
  /** Folded blocks that can be undone. */
  readonly undoBlocks: number
  /** Between two heads of one chain. */
  readonly lagBlocks: number
} & CallOptions

export type LazyStartOptions = { readonly database: Database } & PlanLimits

/** What a directory has that was begun before. */
export type KnownChain = {
  readonly head: number
  readonly oldestBlock: number
  readonly lazyStart: number
  /** A start that began it anew was cut off. */
  readonly isCut: boolean
  /** Nothing up to here is left for another chain while the node runs; undefined: whoever starts it again wants it so. */
  readonly finalized: number | undefined
  readonly isUnfoldable: (number: number) => boolean
  /** A block above the head that cannot be executed here, and why. */
  readonly past?: { readonly number: number; readonly why: string } | undefined
  /** undefined: it has none. */
  readonly hashOf: (number: number) => Hex | undefined
}

export type LazyPlan = { readonly doubts: readonly Doubt[] } & (
  | { readonly status: 'on' }
  | {
      readonly status: 'begun' | 'anew'
      readonly start: Beginning
      readonly why: string | undefined
    }
)

/**
 * Before any other thread opens the directory.
 * @param sources in the order of naming
 * @throws {UpstreamError} {LazyStartError} {DatabaseError} {StoredChainError}
 */
export async function startLazy(
  sources: readonly LazySource[],
  options: LazyStartOptions,
): Promise<LazyBegun> {
  const { database, chain } = options
  const { status } = lazyDirectory(database)
  if (status === 'whole')
    throw new LazyStartError(
      'the directory holds a whole state: say --state whole, or give another --datadir',
    )
  const known = status === 'empty' ? undefined : knownChain(database, status === 'cut')
  const plan = await planLazy(sources, known, options)
  const { doubts } = plan
  if (plan.status === 'on') {
    const head = openStore(database).durableHead()
    return { status: 'on', head, why: undefined, doubts, start: undefined }
  }
  const { start, why } = plan
  return { status: plan.status, head: beginLazy(database, chain, start), why, doubts, start }
}

function knownChain(database: Database, isCut: boolean): KnownChain {
  const store = openStore(database)
  const unfolded = unfoldedHashes(database)
  return {
    ...knownStart(store),
    head: store.durableHead().number,
    isCut,
    finalized: undefined,
    hashOf(number) {
      const hash = unfolded.get(number) ?? store.hashOfNumber(number)
      return hash && bytesToHex(hash)
    },
  }
}

/** Of a lazy directory. */
export function knownStart(
  store: StoreReader,
): Pick<KnownChain, 'oldestBlock' | 'lazyStart' | 'isUnfoldable'> {
  const { oldestBlock, block } = store.lazyStart()!
  return {
    oldestBlock,
    lazyStart: block.number,
    isUnfoldable: (number) => store.isUnfoldable(number),
  }
}

/**
 * What is to be done, and with what. Nothing is changed.
 * @param known undefined: there is nothing yet
 * @throws {UpstreamError} {LazyStartError} of the last upstream that was asked
 */
export async function planLazy(
  sources: readonly LazySource[],
  known: KnownChain | undefined,
  options: PlanLimits,
): Promise<LazyPlan> {
  const upstreams = sources.map(({ upstream }) => upstream)
  const agreed = await agreeOnHead(upstreams, options)
  const { doubts } = agreed
  const giving = sources.filter(
    ({ upstream, depth }) => depth !== undefined && agreed.by.includes(upstream),
  )
  if (giving.length === 0)
    throw new UpstreamError(
      'refused',
      `block ${agreed.number} is ${agreed.hash} at upstreams that give no state`,
    )
  const keptUpTo = known && (await newestShared(upstreams, known, options))
  const why = known && reasonToBegin(known, { head: agreed, keptUpTo, giving, options })
  if (known !== undefined && why === undefined) return { status: 'on', doubts }
  await checkFinal(upstreams, known, options)
  const start = await startOf(giving, agreed, options)
  return known === undefined
    ? { status: 'begun', start, why, doubts }
    : { status: 'anew', start: { ...start, keptUpTo }, why, doubts }
}

/** @throws {UpstreamError} */
async function checkFinal(
  upstreams: readonly Upstream[],
  known: KnownChain | undefined,
  options: CallOptions,
): Promise<void> {
  const finalized = known?.finalized
  const ours = finalized === undefined ? undefined : known!.hashOf(finalized)
  if (ours === undefined) return
  const { hash, by } = await agreeOnBlock(upstreams, finalized!, options)
  if (hash !== ours)
    throw wrong(by[0]!, `block ${finalized} is ${hash} there and ${ours} here, where it is final`)
}

/** undefined: it goes on. @throws {LazyStartError} */
function reasonToBegin(
  known: KnownChain,
  of: {
    readonly head: Point
    readonly keptUpTo: number | undefined
    readonly giving: readonly LazySource[]
    readonly options: Pick<PlanLimits, 'undoBlocks'>
  },
): string | undefined {
  if (known.isCut) return 'a start that began it anew was cut off'
  const { head, keptUpTo, giving, options } = of
  const { past } = known
  if (past !== undefined && head.number <= past.number)
    throw new LazyStartError(`the upstreams have no block after ${past.number} yet`)
  if (past !== undefined) return past.why
  const ours = known.head
  const behind = head.number - ours
  const depth = Math.max(...giving.map(({ depth }) => depth!))
  if (behind > depth)
    return `block ${ours} is ${behind} blocks behind the upstream, whose state reaches ${depth} back`
  // Upstreams that are behind us say nothing of the blocks that they do not have.
  const shared = keptUpTo ?? -1
  if (shared >= Math.min(ours, head.number)) return undefined
  const isUndone = ours - shared <= options.undoBlocks && known.isUnfoldable(shared)
  if (isUndone && shared >= known.lazyStart) return undefined
  return `the upstream has another chain from block ${shared + 1} on, and blocks up to ${ours} cannot be undone that far`
}

/** The newest block of ours that most upstreams have too; undefined: none is. */
async function newestShared(
  upstreams: readonly Upstream[],
  known: KnownChain,
  options: CallOptions,
): Promise<number | undefined> {
  const isShared = async (number: number): Promise<boolean> => {
    const hash = known.hashOf(number)
    return hash !== undefined && (await agreeOnBlock(upstreams, number, options)).hash === hash
  }
  let high = known.head
  const lowest = known.oldestBlock
  if (await isShared(high)) return high
  // Steps that double, then halves: what is shared is shared all the way down.
  let low = high
  for (let step = 1; ; step *= 2) {
    high = low
    low = Math.max(lowest, low - step)
    if (await isShared(low)) break
    if (low === lowest) return undefined
  }
  while (high - low > 1) {
    const middle = low + ((high - low) >> 1)
    if (await isShared(middle)) low = middle
    else high = middle
  }
  return low
}

/** Of the first that gives it as its hashes say. */
async function startOf(
  sources: readonly LazySource[],
  head: Point,
  options: PlanLimits,
): Promise<Start> {
  let failure: unknown
  for (const { upstream } of sources)
    try {
      const start = await readStart(upstream, head, options)
      checkStart(start, Number(options.chain.genesisNumber))
      return start
    } catch (error) {
      if (!(error instanceof UpstreamError || error instanceof LazyStartError)) throw error
      failure = error
    }
  throw failure
}
