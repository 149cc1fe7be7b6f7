/** What a directory is followed with: all of its state, or a part of it that begins at an upstream's head. Before any other thread is there. */
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import type { Doubt } from '../../../engine/sources/lazy/agree.ts'
import {
  createBudget,
  DEFAULT_BUDGET_LIMITS,
  type Payer,
} from '../../../engine/sources/lazy/budget.ts'
import { type LazyMode, lazyMode, type Probed } from '../../../engine/sources/lazy/depth.ts'
import { paced } from '../../../engine/sources/lazy/pace.ts'
import {
  namedIn,
  type ProbedUpstream,
  probeAll,
  sourcesIn,
} from '../../../engine/sources/lazy/probe.ts'
import { type LazyBegun, startLazy } from '../../../engine/sources/lazy/start.ts'
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { WRITER_LIMITS } from '../../../engine/sources/writer/types.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { lazyDirectory } from '../../../engine/storage/lazy/begin.ts'
import { LazyStartError } from '../../../engine/storage/lazy/start.ts'
import type { Beginning } from '../../../engine/storage/types.ts'
import type { StateMode } from '../../../rpc/seam/ports.ts'
import type { Opened } from '../../data/open.ts'
import { CLOCK, openUpstreams } from '../../follower/upstreams.ts'
import type { NodeContext } from '../../process/context.ts'
import { StartError } from '../../process/context.ts'
import { type FollowConfig, upstreamLimitsOf } from './flags.ts'

/** How an upstream's state can be asked for. */
export type LazyBegin = {
  readonly mode: LazyMode
  readonly probed: readonly Probed[]
  /** Of upstreams that most others contradict. */
  readonly doubts: readonly Doubt[]
}
export type Begun = {
  readonly mode: StateMode
  /** undefined: the state is whole. */
  readonly lazy: LazyBegin | undefined
  /** What a lazy state was begun with now; undefined: it is whole, or goes on. */
  readonly start: Beginning | undefined
}
type Context = Pick<NodeContext, 'log' | 'reporter'>

/** @throws {StartError} {GenesisError} {DatabaseError} {StoredChainError} */
export async function beginFollowing(
  config: FollowConfig,
  { database, chain, path }: Opened,
  context: Context,
): Promise<Begun> {
  const { status } = lazyDirectory(database)
  const wanted = config.state ?? (status === 'whole' ? 'whole' : 'lazy')
  if (wanted === 'lazy') return beginLazily(config, { database, chain, path }, context)
  if (status === 'begun' || status === 'cut')
    throw new StartError(
      `${path} has only the part of the state that was fetched: leave out --state whole, or give another --datadir`,
    )
  if (importGenesis(database, chain)) context.log.info({ path }, 'wrote the genesis')
  return { mode: 'whole', lazy: undefined, start: undefined }
}

async function beginLazily(
  config: FollowConfig,
  opened: Opened,
  { log, reporter }: Context,
): Promise<Begun> {
  const limits = upstreamLimitsOf(config)
  const budget = createBudget(
    { ...DEFAULT_BUDGET_LIMITS, upstreamRate: config.upstreamRate },
    CLOCK,
  )
  const upstreams = openUpstreams(config.upstream, limits)
  try {
    const { chain, database } = opened
    const found = await probe(
      upstreams.map((upstream) => paced(upstream, budget, PAYER)),
      chain,
    )
    const probed = namedIn(found)
    const decided = lazyMode(probed, config.trustUpstream)
    if ('refused' in decided) throw new StartError(decided.refused)
    const { mode, says } = decided
    const begun = await startLazy(sourcesIn(mode, found), {
      ...{ database, chain, undoBlocks: WRITER_LIMITS.undoBlocks },
      lagBlocks: limits.upstreamLagBlocks,
    })
    const { doubts } = begun
    log.info({ mode, block: begun.head.number }, says)
    log.info(toldOf(begun))
    for (const { name, message } of doubts)
      reporter.report('upstream_doubt', { reason: `${name} is not asked for a while: ${message}` })
    return { mode, lazy: { mode, probed, doubts }, start: begun.start }
  } catch (error) {
    if (error instanceof UpstreamError || error instanceof LazyStartError)
      throw new StartError(error.message)
    throw error
  } finally {
    budget.close()
    for (const upstream of upstreams) upstream.close()
  }
}
/** Nothing else asks yet. */
const PAYER: Payer = { what: 'canonical', client: '' }

function toldOf({ status, head, why }: LazyBegun): string {
  if (status === 'begun') return `the state begins at block ${head.number}, the upstream's head`
  if (status === 'on') return `goes on from block ${head.number}`
  return `the state begins anew at block ${head.number}: ${why}`
}

/** Those that answer, in the order of naming. @throws {StartError} where none does, or one has another chain */
async function probe(
  upstreams: readonly Upstream[],
  chain: ChainSpec,
): Promise<readonly ProbedUpstream[]> {
  const { probed, silent, foreign } = await probeAll(upstreams, chain)
  if (foreign !== undefined) throw new StartError(foreign)
  if (probed.length > 0) return probed
  throw new StartError(
    `no upstream answers, and lazy state begins with one: ${silent.join('; ')}; look at them, or give another --upstream`,
  )
}
