/**
 * A lazy state starts at the newest block that most upstreams have. A later start continues if
 * their state reaches back to our head. Otherwise, or after a reorg deeper than the undo window,
 * the state restarts.
 * At a start of the process this happens before any other thread exists; later the persistence
 * thread does it.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Hex } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { openStore } from '../../storage/blocks/store.ts'
import type { Database } from '../../storage/database/types.ts'
import { lazyDirectory, startLazyState, unpersistedHashes } from '../../storage/lazy/directory.ts'
import { checkStart, LazyStartError } from '../../storage/lazy/start.ts'
import type { ResyncStart, Start, StoredHead, StoreReader } from '../../storage/types.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import type { CallOptions } from '../upstream/messages.ts'
import type { Point } from '../upstream/tracker-types.ts'
import { agreeOnBlock, agreeOnHead, type Suspicion, wrong } from './agree.ts'
import { readStart } from './read-start.ts'

export type LazyStarted = {
  /**
   * `begun`: the directory was empty. `anew`: the state restarted for the reason `why`. `on`: it
   * continues from its head.
   */
  readonly status: 'begun' | 'anew' | 'on'
  readonly head: StoredHead
  readonly why: string | undefined
  /** Upstreams that most others contradict. */
  readonly suspicions: readonly Suspicion[]
  /** Data of a start or restart; undefined: the state continues. */
  readonly start: ResyncStart | undefined
}

/**
 * `depth`: how far below its head the upstream gives state in the node's mode; undefined: it gives
 * none.
 */
export type LazySource = { readonly upstream: Upstream; readonly depth: number | undefined }

export type PlanLimits = {
  readonly chain: ChainSpec
  /** Persisted blocks that can be unwound. */
  readonly undoBlocks: number
  /** Allowed distance between two heads of one chain. */
  readonly lagBlocks: number
} & CallOptions

export type LazyStartOptions = { readonly database: Database } & PlanLimits

export type KnownChain = {
  readonly head: number
  readonly oldestBlock: number
  readonly lazyStart: number
  /** An earlier restart was interrupted. */
  readonly isCut: boolean
  /**
   * Height up to which a running node accepts no other chain. undefined at a start, because the
   * operator wants it.
   */
  readonly finalized: number | undefined
  readonly canUnwindTo: (number: number) => boolean
  /** A block above the head that cannot be executed here, with the reason. */
  readonly past?: { readonly number: number; readonly why: string } | undefined
  /** undefined: there is no block at that height. */
  readonly hashOf: (number: number) => Hex | undefined
}

export type LazyPlan = { readonly suspicions: readonly Suspicion[] } & (
  | { readonly status: 'on' }
  | {
      readonly status: 'begun' | 'anew'
      readonly start: ResyncStart
      readonly why: string | undefined
    }
)

/**
 * Starts a lazy state, before any other thread opens the directory.
 * @param sources in the order of naming
 * @throws {UpstreamError}
 * @throws {LazyStartError}
 * @throws {DatabaseError}
 * @throws {StoredChainError}
 */
export async function startLazy(
  sources: readonly LazySource[],
  options: LazyStartOptions,
): Promise<LazyStarted> {
  const { database, chain } = options
  const { status } = lazyDirectory(database)
  if (status === 'whole')
    throw new LazyStartError(
      'the directory holds a whole state: say --state whole, or give another --datadir',
    )
  const known = status === 'empty' ? undefined : knownChain(database, status === 'cut')
  const plan = await planLazy(sources, known, options)
  const { suspicions } = plan
  if (plan.status === 'on') {
    const head = openStore(database).durableHead()
    return { status: 'on', head, why: undefined, suspicions, start: undefined }
  }
  const { start, why } = plan
  return {
    status: plan.status,
    head: startLazyState(database, chain, start),
    why,
    suspicions,
    start,
  }
}

function knownChain(database: Database, isCut: boolean): KnownChain {
  const store = openStore(database)
  const unpersisted = unpersistedHashes(database)
  return {
    ...knownStart(store),
    head: store.durableHead().number,
    isCut,
    finalized: undefined,
    hashOf(number) {
      const hash = unpersisted.get(number) ?? store.hashOfNumber(number)
      return hash && bytesToHex(hash)
    },
  }
}

export function knownStart(
  store: StoreReader,
): Pick<KnownChain, 'oldestBlock' | 'lazyStart' | 'canUnwindTo'> {
  const { oldestBlock, block } = store.lazyStart()!
  return {
    oldestBlock,
    lazyStart: block.number,
    canUnwindTo: (number) => store.canUnwindTo(number),
  }
}

/**
 * Decides between a start, a restart and no change, and reads the data for it. The directory is not
 * changed.
 * @param known undefined: there is no chain yet
 * @throws {UpstreamError}
 * @throws {LazyStartError} of the last upstream that was asked
 */
export async function planLazy(
  sources: readonly LazySource[],
  known: KnownChain | undefined,
  options: PlanLimits,
): Promise<LazyPlan> {
  const upstreams = sources.map(({ upstream }) => upstream)
  const agreed = await agreeOnHead(upstreams, options)
  const { suspicions } = agreed
  const giving = sources.filter(
    ({ upstream, depth }) => depth !== undefined && agreed.by.includes(upstream),
  )
  if (giving.length === 0)
    throw new UpstreamError(
      'refused',
      `block ${agreed.number} is ${agreed.hash} at upstreams that give no state`,
    )
  const keptUpTo = known && (await newestShared(upstreams, known, options))
  const why = known && resyncReason(known, { head: agreed, keptUpTo, giving, options })
  if (known !== undefined && why === undefined) return { status: 'on', suspicions }
  await checkFinal(upstreams, known, options)
  const start = await startOf(giving, agreed, options)
  return known === undefined
    ? { status: 'begun', start, why, suspicions }
    : { status: 'anew', start: { ...start, keptUpTo }, why, suspicions }
}

/** @throws {UpstreamError} when most upstreams contradict a final block */
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

/**
 * Returns the reason for a restart; undefined: the state continues.
 * @throws {LazyStartError}
 */
function resyncReason(
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
  const lagBlocks = head.number - ours
  const depth = Math.max(...giving.map(({ depth }) => depth!))
  if (lagBlocks > depth)
    return `block ${ours} is ${lagBlocks} blocks behind the upstream, whose state reaches ${depth} back`
  // Upstreams that lag behind us do not contradict blocks that they lack.
  const shared = keptUpTo ?? -1
  if (shared >= Math.min(ours, head.number)) return undefined
  const isUndone = ours - shared <= options.undoBlocks && known.canUnwindTo(shared)
  if (isUndone && shared >= known.lazyStart) return undefined
  return `the upstream has another chain from block ${shared + 1} on, and blocks up to ${ours} cannot be undone that far`
}

/** Returns the newest block of ours that most upstreams have too; undefined: there is none. */
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
  // Doubling steps, then bisection, because all blocks below a shared one are shared.
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

/** Returns the start of the first source that passes verification. */
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
