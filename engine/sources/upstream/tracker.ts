/**
 * Follows the chain of its upstreams, with events in and effects out, without a clock or network.
 * The driver asks upstreams, and reports their responses, the writer's progress and the time.
 */
import { advance, onBlocks } from './advance.ts'
import {
  backoff,
  candidates,
  checkLag,
  leaderOf,
  noteResponse,
  onClaim,
  startVote,
  wakeUp,
} from './choice.ts'
import { onRefused } from './deliver.ts'
import { createProgress } from './progress.ts'
import { onResynced, onResyncStart } from './resync.ts'
import {
  type Backoff,
  degradedBy,
  emit,
  haltSuspicion,
  isUsable,
  lineHash,
  openRequest,
  ownHash,
  replan,
  resyncSuspicion,
  type Source,
  type TrackerState,
  tipOf,
  type UpstreamRequest,
} from './tracker-state.ts'
import type {
  Point,
  TrackedBlock,
  TrackerEffect,
  TrackerEvent,
  TrackerOptions,
  TrackerStatus,
} from './tracker-types.ts'

export interface Tracker<B extends TrackedBlock> {
  apply(event: TrackerEvent<B>): readonly TrackerEffect<B>[]
  /** Time of the next tick, in monotonic milliseconds. */
  wakeAtMs(): number
  status(): TrackerStatus
  /** Number of our newest canonical block that the followed chain is known to share. */
  shared(): number
  /** Upstreams that may be asked for anything else, the followed one first. */
  order(): readonly number[]
  /** Newest block that an upstream has announced. */
  headOf(upstream: number): number | undefined
}

export function createTracker<B extends TrackedBlock>(options: TrackerOptions): Tracker<B> {
  const state = createState<B>(options)
  return {
    apply(event) {
      wakeUp(state)
      onEvent(state, event)
      advance(state)
      settleLabelledHeads(state)
      poll(state)
      emitStatus(state)
      const { effects } = state
      state.effects = []
      return effects
    },
    wakeAtMs: () => wakeAtMs(state),
    status: () => statusOf(state),
    shared: () =>
      Math.min(state.canonical.number, (state.sent[0]?.number ?? Number.POSITIVE_INFINITY) - 1),
    order: () => candidates(state).map(({ at }) => at),
    headOf: (at) => state.sources[at]?.head?.number,
  }
}

function createState<B extends TrackedBlock>(options: TrackerOptions): TrackerState<B> {
  const now = options.now()
  return {
    options,
    sources: options.upstreams.map(({ name }, at) => ({
      at,
      name,
      head: undefined,
      movedTo: undefined,
      movedAtMs: now,
      backoff: initialBackoff(options, name),
      failures: 0,
      retryAtMs: now,
      pollAtMs: now,
      emptySinceMs: undefined,
      polling: undefined,
    })),
    requested: new Map(),
    requests: 0,
    canonical: options.head,
    finalized: options.finalized,
    safe: options.finalized,
    sent: [],
    fetched: new Map(),
    plan: 0,
    requestedTo: options.head.number,
    ancestorSearch: undefined,
    vote: undefined,
    voteAtMs: now,
    tags: { safe: undefined, finalized: undefined },
    tagsAtMs: now,
    refused: new Map(),
    pausedUntilMs: now,
    halted: undefined,
    lazyStart: options.lazyStart,
    isResyncing: false,
    leftAtMs: now,
    stateLosses: 0,
    progress: createProgress(options.now),
    statusAtMs: now,
    effects: [],
  }
}

function initialBackoff(
  { suspected, now, limits }: TrackerOptions,
  name: string,
): Backoff | undefined {
  const message = suspected?.get(name)
  if (message === undefined) return undefined
  return { why: 'contradicts', message, untilMs: now() + limits.upstreamRestMs }
}

function onEvent<B extends TrackedBlock>(state: TrackerState<B>, event: TrackerEvent<B>): void {
  switch (event.type) {
    case 'published':
      onPublished(state, event.head)
      return
    case 'refused':
      onRefused(state, event)
      return
    case 'tick':
      return
    case 'beginning':
      onResyncStart(state)
      return
    case 'begun':
      onResynced(state, event)
      return
    case 'notBegun':
      state.isResyncing = false
      return
    default: {
      const request = take(state, event.request)
      if (request?.type === 'poll') request.source.polling = undefined
      if (event.type === 'head') onHead(state, state.sources[event.upstream]!, event)
      else if (request !== undefined) onResponse(state, request, event)
    }
  }
}

type TrackerResponse<B extends TrackedBlock> = TrackerEvent<B> & {
  readonly type: 'blocks' | 'hash' | 'failed' | 'foreign'
}

function onResponse<B extends TrackedBlock>(
  state: TrackerState<B>,
  request: UpstreamRequest,
  event: TrackerResponse<B>,
): void {
  const { source } = request
  switch (event.type) {
    case 'blocks':
      noteResponse(state, source)
      onBlocks(state, request, event.blocks)
      return
    case 'hash':
      if (request.type === 'vote') onClaim(state, request, event.hash)
      return
    case 'failed':
      onFailed(state, request, event)
      return
    case 'foreign': {
      const { message } = event
      backoff(state, source, { why: 'foreign', message, ms: Number.POSITIVE_INFINITY })
      goOnWithout(state, request)
    }
  }
}

/** Removes and returns the open request. */
function take<B extends TrackedBlock>({ requested }: TrackerState<B>, request: number | undefined) {
  if (request === undefined) return undefined
  const found = requested.get(request)
  requested.delete(request)
  return found
}

function onHead<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  { head, tags, request }: TrackerEvent<B> & { readonly type: 'head' },
): void {
  const { now, times } = state.options
  if (source.movedTo !== head.hash) source.movedAtMs = now()
  source.movedTo = head.hash
  source.head = head
  // A pushed head does not show that the upstream answers.
  if (request !== undefined) noteResponse(state, source)
  checkLag(state, source)
  if (!isUsable(source)) return
  const isLeader = leaderOf(state) === source
  source.pollAtMs = now() + paceMs()
  if (tags !== undefined && isLeader) state.tags = tags
  if (!isLeader) suspect(state, source)

  function paceMs(): number {
    if (request === undefined) return times.silentMs
    return isLeader ? times.pollMs : 4 * times.pollMs
  }
}

/** Starts a vote if an upstream that is not followed may have another block than ours. */
function suspect<B extends TrackedBlock>(state: TrackerState<B>, source: Source): void {
  const number = suspectHeight(state, source)
  const isBusy = state.vote !== undefined || state.ancestorSearch !== undefined || state.isResyncing
  if (number !== undefined && !isBusy && state.options.now() >= state.voteAtMs)
    startVote(state, number, new Map())
}

/** Returns a height at which an upstream that is not followed may differ from ours. */
function suspectHeight<B extends TrackedBlock>(
  state: TrackerState<B>,
  { head }: Source,
): number | undefined {
  const tip = tipOf(state)
  const { number, hash, parentHash } = head!
  if (number <= tip.number) {
    const ours = lineHash(state, number)
    return ours === undefined || ours === hash ? undefined : number
  }
  // The next block of the followed upstream will show whether it stands on ours.
  if (leaderOf(state)!.head!.number > tip.number) return undefined
  if (number === tip.number + 1 && parentHash === tip.hash) return undefined
  // The first named upstream wins a vote of two, and its own lag would then remain hidden.
  return state.sources.filter(isUsable).length > 2 ? tip.number : undefined
}

function onFailed<B extends TrackedBlock>(
  state: TrackerState<B>,
  request: UpstreamRequest,
  { kind, message, retryAfterMs }: TrackerEvent<B> & { readonly type: 'failed' },
): void {
  const { source } = request
  const { backoffMs } = state.options.times
  backoff(
    state,
    source,
    kind === 'limited'
      ? { why: 'limited', message, ms: Math.max(retryAfterMs, backoffMs) }
      : { why: 'errs', message },
  )
  goOnWithout(state, request)
}

/** Closes a request without a response, so that nothing waits for it. */
function goOnWithout<B extends TrackedBlock>(
  state: TrackerState<B>,
  request: UpstreamRequest,
): void {
  switch (request.type) {
    case 'vote':
      onClaim(state, request, undefined)
      return
    case 'range':
      if (request.plan === state.plan) replan(state)
      return
    case 'ancestors':
      if (state.ancestorSearch === request.ancestorSearch) state.ancestorSearch = undefined
      return
    case 'poll':
      return
  }
}

function onPublished<B extends TrackedBlock>(state: TrackerState<B>, head: Point): void {
  const at = state.sent.findIndex(({ hash }) => hash === head.hash)
  if (at >= 0) {
    const done = state.sent.splice(0, at + 1)
    state.progress.add(
      done.length,
      done.reduce((sum, { gasUsed }) => sum + gasUsed, 0),
    )
    state.stateLosses = 0
  }
  state.canonical = head
}

/** Applies labelled heads that are blocks of our chain. */
function settleLabelledHeads<B extends TrackedBlock>(state: TrackerState<B>): void {
  const { canonical, tags, sent, isResyncing } = state
  if (isResyncing) return
  // The writer is about to unwind canonical blocks.
  if (sent[0] !== undefined && sent[0].number <= canonical.number) return
  const isOurs = (point: Point | undefined): point is Point =>
    point !== undefined && ownHash(state, point.number) === point.hash
  const finalized = isOurs(tags.finalized)
    ? Math.max(state.finalized, tags.finalized.number)
    : state.finalized
  const safe = Math.max(finalized, isOurs(tags.safe) ? tags.safe.number : state.safe)
  if (safe === state.safe && finalized === state.finalized) return
  state.safe = safe
  state.finalized = finalized
  emit(state, { type: 'marks', safe, finalized })
}

function poll<B extends TrackedBlock>(state: TrackerState<B>): void {
  const { now, times } = state.options
  const leader = leaderOf(state)
  for (const source of candidates(state)) {
    const hasTags = source === leader && now() >= state.tagsAtMs
    if (source.polling !== undefined || (now() < source.pollAtMs && !hasTags)) continue
    if (hasTags) state.tagsAtMs = now() + times.tagsMs
    const question = openRequest(state, { type: 'poll', source })
    source.polling = question.request
    emit(state, { type: 'poll', ...question, hasTags })
  }
}

function wakeAtMs<B extends TrackedBlock>(state: TrackerState<B>): number {
  const now = state.options.now()
  const times = [state.statusAtMs]
  for (const source of candidates(state))
    if (source.polling === undefined) times.push(source.pollAtMs)
  for (const { backoff } of state.sources) if (backoff !== undefined) times.push(backoff.untilMs)
  const leader = leaderOf(state)
  if (leader !== undefined && leader.polling === undefined) times.push(state.tagsAtMs)
  if (state.pausedUntilMs > now) times.push(state.pausedUntilMs)
  return Math.min(...times)
}

function emitStatus<B extends TrackedBlock>(state: TrackerState<B>): void {
  const { now, times } = state.options
  if (now() < state.statusAtMs) return
  state.statusAtMs = now() + times.statusMs
  emit(state, { type: 'status', status: statusOf(state) })
}

function statusOf<B extends TrackedBlock>(state: TrackerState<B>): TrackerStatus {
  const { sources, canonical, halted, isResyncing, progress } = state
  const head = leaderOf(state)?.head?.number
  return {
    head,
    canonical: canonical.number,
    upstreams: sources.map(({ name, head, backoff }) => ({
      name,
      head: head?.number,
      rests: backoff?.message,
    })),
    degraded: degradedBy(sources),
    halted: isResyncing ? resyncSuspicion : halted && haltSuspicion(halted),
    catchUp: head === undefined ? undefined : progress.report(canonical.number, head),
  }
}
