/** What a directory is followed with: all of its state, or a part of it that begins at an upstream's head. Before any other thread is there. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Doubt } from '../../../engine/sources/lazy/agree.ts'
import {
  createBudget,
  DEFAULT_BUDGET_LIMITS,
  type Payer,
} from '../../../engine/sources/lazy/budget.ts'
import { type LazyMode, lazyMode, type Probed } from '../../../engine/sources/lazy/depth.ts'
import { paced } from '../../../engine/sources/lazy/pace.ts'
import { namedIn, type Probing, probeAll, sourcesIn } from '../../../engine/sources/lazy/probe.ts'
import { type LazyBegun, startLazy } from '../../../engine/sources/lazy/start.ts'
import { type FailureKind, UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { WRITER_LIMITS } from '../../../engine/sources/writer/types.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { lazyDirectory, storedLazyMode, storeLazyMode } from '../../../engine/storage/lazy/begin.ts'
import { LazyStartError } from '../../../engine/storage/lazy/start.ts'
import type { Beginning, StoredHead } from '../../../engine/storage/types.ts'
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
type Context = Pick<NodeContext, 'log' | 'reporter' | 'lifecycle'>

/**
 * A lazy directory that has a head goes on from it while no upstream answers; an empty one waits for one.
 * @throws {StartError} {GenesisError} {DatabaseError} {StoredChainError}
 */
export async function beginFollowing(
  config: FollowConfig,
  { database, chain, path }: Opened,
  context: Context & { readonly isPatient: boolean },
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
  context: Context & { readonly isPatient: boolean },
): Promise<Begun> {
  const waiting = new AbortController()
  context.lifecycle.onStop('the wait for an upstream', () => waiting.abort())
  for (let tries = 0; ; tries++) {
    const tried = await tryToBegin(config, opened, context)
    waiting.signal.throwIfAborted()
    if (!('away' in tried)) return tried
    const directory = lazyDirectory(opened.database)
    if (directory.status === 'begun')
      return goOnAlone(config, opened, {
        ...context,
        away: tried.away,
        head: directory.durableHead,
      })
    if (!tried.mayCome || !context.isPatient) throw new StartError(tried.away)
    const ms = Math.min(RETRY_MS * 2 ** tries, MAX_RETRY_MS)
    const reason = `${tried.away}; this directory has no head to start from, and they are asked again in ${ms / 1_000} s`
    context.reporter.report('upstream_doubt', { reason })
    await sleep(ms, undefined, { signal: waiting.signal })
  }
}

/** Between two tries of a start that has nothing to serve: from the first doubled to the last. */
const RETRY_MS = 1_000
const MAX_RETRY_MS = 8_000

/** `away`: why nothing can be begun with the upstreams now. `mayCome`: another time may be better. */
type Away = { readonly away: string; readonly mayCome: boolean }

/** @throws {StartError} {DatabaseError} {StoredChainError} */
async function tryToBegin(
  config: FollowConfig,
  { database, chain }: Opened,
  { log, reporter }: Context,
): Promise<Begun | Away> {
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
    if ('away' in decided) return decided
    const { mode, says } = decided
    const begun = await startLazy(sourcesIn(mode, found.probed), {
      ...{ database, chain, undoBlocks: WRITER_LIMITS.undoBlocks },
      lagBlocks: limits.upstreamLagBlocks,
    })
    storeLazyMode(database, mode)
    const { doubts } = begun
    log.info({ mode, block: begun.head.number }, says)
    log.info(toldOf(begun))
    for (const { name, message } of doubts)
      reporter.report('upstream_doubt', { reason: `${name} is not asked for a while: ${message}` })
    return { mode, lazy: { mode, probed, doubts }, start: begun.start }
  } catch (error) {
    if (error instanceof UpstreamError)
      return { away: error.message, mayCome: PASSING.has(error.kind) }
    if (error instanceof LazyStartError) throw new StartError(error.message)
    throw error
  } finally {
    budget.close()
    for (const upstream of upstreams) upstream.close()
  }
}
/** Nothing else asks yet. */
const PAYER: Payer = { what: 'canonical', client: '' }
/** Failures that say nothing of what the upstream will answer another time. */
const PASSING: ReadonlySet<FailureKind> = new Set(['silent', 'unreachable', 'broken', 'limited'])

/** @throws {StartError} where all upstreams answer, and none can be used */
function modeOf(
  { probed, silent }: Probing,
  isTrusted: boolean,
): { readonly mode: LazyMode; readonly says: string } | Away {
  const others = silent.join('; ')
  if (probed.length === 0)
    return {
      away: `no upstream answers, and lazy state begins with one: ${others}; look at them, or give another --upstream`,
      mayCome: true,
    }
  const decided = lazyMode(namedIn(probed), isTrusted)
  if (!('refused' in decided)) return decided
  if (silent.length === 0) throw new StartError(decided.refused)
  return { away: `${decided.refused} (${others})`, mayCome: true }
}

/**
 * A restart while the upstreams are away: what the directory has is served, in the mode that it was last fetched in. State without proofs
 * is taken only where this start allows it.
 */
function goOnAlone(
  { trustUpstream }: FollowConfig,
  { database }: Opened,
  { reporter, away, head }: Context & { readonly away: string; readonly head: StoredHead },
): Begun {
  const mode = trustUpstream && storedLazyMode(database) !== 'proven' ? 'trusted' : 'proven'
  reporter.report('upstream_doubt', {
    reason: `goes on from block ${head.number}, its own head, and asks again: ${away}`,
  })
  return { mode, lazy: { mode, probed: [], doubts: [] }, start: undefined }
}

function toldOf({ status, head, why }: LazyBegun): string {
  if (status === 'begun') return `the state begins at block ${head.number}, the upstream's head`
  if (status === 'on') return `goes on from block ${head.number}`
  return `the state begins anew at block ${head.number}: ${why}`
}
