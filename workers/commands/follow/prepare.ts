/**
 * Prepares a directory for following, before other threads start.
 * It has all state, or a part of the state that starts at an upstream's head.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Suspicion } from '../../../engine/sources/lazy/agree.ts'
import {
  createBudget,
  DEFAULT_BUDGET_LIMITS,
  type Payer,
} from '../../../engine/sources/lazy/budget.ts'
import { type LazyMode, lazyMode, type Probed } from '../../../engine/sources/lazy/depth.ts'
import { paced } from '../../../engine/sources/lazy/paced-upstream.ts'
import { namedIn, type Probing, probeAll, sourcesIn } from '../../../engine/sources/lazy/probe.ts'
import { type LazyStarted, startLazy } from '../../../engine/sources/lazy/start.ts'
import { type FailureKind, UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { WRITER_LIMITS } from '../../../engine/sources/writer/types.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import {
  lazyDirectory,
  storedLazyMode,
  storeLazyMode,
} from '../../../engine/storage/lazy/directory.ts'
import { LazyStartError } from '../../../engine/storage/lazy/start.ts'
import type { ResyncStart, StoredHead } from '../../../engine/storage/types.ts'
import type { StateMode } from '../../../rpc/core/ports.ts'
import type { Opened } from '../../data/open.ts'
import { CLOCK, openUpstreams } from '../../follower/upstreams.ts'
import type { NodeContext } from '../../process/context.ts'
import { StartError } from '../../process/context.ts'
import { type FollowConfig, upstreamLimitsOf } from './flags.ts'

export type LazyFollow = {
  readonly mode: LazyMode
  readonly probed: readonly Probed[]
  /** Suspicions about upstreams that most others contradict. */
  readonly suspicions: readonly Suspicion[]
}
export type FollowStart = {
  readonly mode: StateMode
  /** undefined if the directory has all state. */
  readonly lazy: LazyFollow | undefined
  /**
   * The block at which this start (re)started lazy state; undefined if it continues or has all
   * state.
   */
  readonly start: ResyncStart | undefined
}
type Context = Pick<NodeContext, 'log' | 'reporter' | 'lifecycle'>

/**
 * A lazy directory with a head continues even if no upstream responds; an empty one waits.
 * @throws {StartError} {GenesisError} {DatabaseError} {StoredChainError}
 */
export async function prepareFollowing(
  config: FollowConfig,
  { database, chain, path }: Opened,
  context: Context & { readonly isPatient: boolean },
): Promise<FollowStart> {
  const { status } = lazyDirectory(database)
  const wanted = config.state ?? (status === 'whole' ? 'whole' : 'lazy')
  if (wanted === 'lazy') return startLazily(config, { database, chain, path }, context)
  if (status === 'begun' || status === 'cut')
    throw new StartError(
      `${path} has lazy state, which is only the part that was fetched: leave out --state whole, or give another --datadir`,
    )
  if (importGenesis(database, chain)) context.log.info({ path }, 'wrote the genesis block')
  return { mode: 'whole', lazy: undefined, start: undefined }
}

async function startLazily(
  config: FollowConfig,
  opened: Opened,
  context: Context & { readonly isPatient: boolean },
): Promise<FollowStart> {
  const waiting = new AbortController()
  context.lifecycle.onStop('the wait for an upstream', () => waiting.abort())
  for (let tries = 0; ; tries++) {
    const tried = await tryToStart(config, opened, context)
    waiting.signal.throwIfAborted()
    if (!('unavailable' in tried)) return tried
    const directory = lazyDirectory(opened.database)
    if (directory.status === 'begun')
      return goOnAlone(config, opened, {
        ...context,
        unavailable: tried.unavailable,
        head: directory.durableHead,
      })
    if (!tried.mayCome || !context.isPatient) throw new StartError(tried.unavailable)
    const ms = Math.min(RETRY_MS * 2 ** tries, MAX_RETRY_MS)
    const reason = `${tried.unavailable}; this directory has no head to start from, so the node retries in ${ms / 1_000} s`
    context.reporter.report('upstream_doubt', { reason })
    await sleep(ms, undefined, { signal: waiting.signal })
  }
}

/** Pause between two tries of a start with an empty directory; it doubles up to the maximum. */
const RETRY_MS = 1_000
const MAX_RETRY_MS = 8_000

/** `unavailable` says why no start is possible now; `mayCome` says if a later try may succeed. */
type Unavailable = { readonly unavailable: string; readonly mayCome: boolean }

/** @throws {StartError} {DatabaseError} {StoredChainError} */
async function tryToStart(
  config: FollowConfig,
  { database, chain }: Opened,
  { log, reporter }: Context,
): Promise<FollowStart | Unavailable> {
  const limits = upstreamLimitsOf(config)
  const budget = createBudget(
    { ...DEFAULT_BUDGET_LIMITS, upstreamRate: config.upstreamRate },
    CLOCK,
  )
  const upstreams = openUpstreams(config.upstream, limits, chain)
  try {
    const found = await probeAll(
      upstreams.map((upstream) => paced(upstream, budget, PAYER)),
      chain,
    )
    if (found.foreign !== undefined) throw new StartError(found.foreign)
    const probed = namedIn(found.probed)
    const decided = modeOf(found, config.trustUpstream)
    if ('unavailable' in decided) return decided
    const { mode, summary } = decided
    const started = await startLazy(sourcesIn(mode, found.probed), {
      database,
      chain,
      undoBlocks: WRITER_LIMITS.undoBlocks,
      lagBlocks: limits.upstreamLagBlocks,
    })
    storeLazyMode(database, mode)
    const { suspicions } = started
    log.info({ mode, block: started.head.number }, summary)
    log.info(summaryOf(started))
    for (const { name, message } of suspicions)
      reporter.report('upstream_doubt', {
        reason: `${name} gets no requests for a while: ${message}`,
      })
    return { mode, lazy: { mode, probed, suspicions }, start: started.start }
  } catch (error) {
    if (error instanceof UpstreamError)
      return { unavailable: error.message, mayCome: PASSING.has(error.kind) }
    if (error instanceof LazyStartError) throw new StartError(error.message)
    throw error
  } finally {
    budget.close()
    for (const upstream of upstreams) upstream.close()
  }
}
/** During the start nothing else shares the budget. */
const PAYER: Payer = { what: 'canonical', client: '' }
/** Failures after which the upstream may respond to a later request. */
const PASSING: ReadonlySet<FailureKind> = new Set(['silent', 'unreachable', 'broken', 'limited'])

/** @throws {StartError} if all upstreams respond, and none is usable */
function modeOf(
  { probed, silent }: Probing,
  isTrusted: boolean,
): { readonly mode: LazyMode; readonly summary: string } | Unavailable {
  const others = silent.join('; ')
  if (probed.length === 0)
    return {
      unavailable: `no upstream answers, and lazy state needs one to start: ${others}; check them, or give another --upstream`,
      mayCome: true,
    }
  const decided = lazyMode(namedIn(probed), isTrusted)
  if (!('refused' in decided)) return decided
  if (silent.length === 0) throw new StartError(decided.refused)
  return { unavailable: `${decided.refused} (${others})`, mayCome: true }
}

/**
 * Restarts without upstreams: the node serves the stored chain in the mode of the last fetch.
 * State without proofs is accepted only if this start's flags allow it.
 */
function goOnAlone(
  { trustUpstream }: FollowConfig,
  { database }: Opened,
  {
    reporter,
    unavailable,
    head,
  }: Context & { readonly unavailable: string; readonly head: StoredHead },
): FollowStart {
  const mode = trustUpstream && storedLazyMode(database) !== 'proven' ? 'trusted' : 'proven'
  reporter.report('upstream_doubt', {
    reason: `the node continues from its own head, block ${head.number}, and retries: ${unavailable}`,
  })
  return { mode, lazy: { mode, probed: [], suspicions: [] }, start: undefined }
}

function summaryOf({ status, head, why }: LazyStarted): string {
  if (status === 'begun')
    return `the lazy state starts at block ${head.number}, the head of the upstream`
  if (status === 'on') return `continues from block ${head.number}`
  return `the lazy state is resynced from block ${head.number}: ${why}`
}
