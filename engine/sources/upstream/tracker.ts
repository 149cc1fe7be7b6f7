/**
 * Follows the chain of its upstreams. Events in, effects out, no clock and no network of its own: whoever drives it asks the upstreams what
 * it wants asked and tells it what they say, what the writer has made canonical, and the time.
 */
import { advance, onBlocks } from './advance.ts'
import { onBeginning, onBegun } from './begun.ts'
import {
  answered,
  candidates,
  checkLag,
  leaderOf,
  onClaim,
  rest,
  startVote,
  wakeUp,
} from './choice.ts'
import { onRefused } from './deliver.ts'
import { beginsDoubt, degradedBy, haltDoubt } from './doubts.ts'
import { createProgress } from './progress.ts'
import {
  type Asked,
  ask,
  emit,
  isUsable,
  lineHash,
  ownHash,
  type Rest,
  replan,
  type Source,
  type TrackerState,
  tipOf,
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
  /** When a tick is due, in monotonic milliseconds. */
  wakeAtMs(): number
  status(): TrackerStatus
  /** Our newest canonical block that the chain which is followed has too, as far as that is known. */
  shared(): number
  /** Who may be asked for anything else, the one that is followed first. */
  order(): readonly number[]
  /** The newest block that an upstream has told of. */
  headOf(upstream: number): number | undefined
}

export function createTracker<B extends TrackedBlock>(options: TrackerOptions): Tracker<B> {
  const state = createState<B>(options)
  return {
    apply(event) {
      wakeUp(state)
      onEvent(state, event)
      advance(state)
      settleMarks(state)
      poll(state)
      tellStatus(state)
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
      rest: restAtFirst(options, name),
      failures: 0,
      retryAtMs: now,
      pollAtMs: now,
      emptySinceMs: undefined,
      polling: undefined,
    })),
    asked: new Map(),
    requests: 0,
    canonical: options.head,
    finalized: options.finalized,
    safe: options.finalized,
    sent: [],
    fetched: new Map(),
    plan: 0,
    askedTo: options.head.number,
    branch: undefined,
    vote: undefined,
    voteAtMs: now,
    tags: { safe: undefined, finalized: undefined },
    tagsAtMs: now,
    refused: new Map(),
    holdUntilMs: now,
    halted: undefined,
    lazyStart: options.lazyStart,
    isBeginning: false,
    leftAtMs: now,
    stateLosses: 0,
    progress: createProgress(options.now),
    statusAtMs: now,
    effects: [],
  }
}

function restAtFirst({ doubted, now, limits }: TrackerOptions, name: string): Rest | undefined {
  const message = doubted?.get(name)
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
      onBeginning(state)
      return
    case 'begun':
      onBegun(state, event)
      return
    case 'notBegun':
      state.isBeginning = false
      return
    default: {
      const asked = take(state, event.request)
      if (asked?.type === 'poll') asked.source.polling = undefined
      if (event.type === 'head') onHead(state, state.sources[event.upstream]!, event)
      else if (asked !== undefined) onAnswer(state, asked, event)
    }
  }
}

type Answer<B extends TrackedBlock> = TrackerEvent<B> & {
  readonly type: 'blocks' | 'hash' | 'failed' | 'foreign'
}

function onAnswer<B extends TrackedBlock>(
  state: TrackerState<B>,
  asked: Asked,
  event: Answer<B>,
): void {
  const { source } = asked
  switch (event.type) {
    case 'blocks':
      answered(state, source)
      onBlocks(state, asked, event.blocks)
      return
    case 'hash':
      if (asked.type === 'vote') onClaim(state, asked, event.hash)
      return
    case 'failed':
      onFailed(state, asked, event)
      return
    case 'foreign': {
      const { message } = event
      rest(state, source, { why: 'foreign', message, ms: Number.POSITIVE_INFINITY })
      goOnWithout(state, asked)
    }
  }
}

/** What was asked; once. */
function take<B extends TrackedBlock>({ asked }: TrackerState<B>, request: number | undefined) {
  if (request === undefined) return undefined
  const found = asked.get(request)
  asked.delete(request)
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
  // Who only tells may still not answer.
  if (request !== undefined) answered(state, source)
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

/** One that is not followed tells of another block than ours, or may have one: who is right? */
function suspect<B extends TrackedBlock>(state: TrackerState<B>, source: Source): void {
  const number = suspectHeight(state, source)
  const isBusy = state.vote !== undefined || state.branch !== undefined || state.isBeginning
  if (number !== undefined && !isBusy && state.options.now() >= state.voteAtMs)
    startVote(state, number, new Map())
}

/** The height at which an upstream that is not followed has another block than ours, or may have. */
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
  // The next block of the upstream that is followed shows by itself whether it stands on ours.
  if (leaderOf(state)!.head!.number > tip.number) return undefined
  if (number === tip.number + 1 && parentHash === tip.hash) return undefined
  // A vote of two is won by the first named, and the other could not show any more that it lags.
  return state.sources.filter(isUsable).length > 2 ? tip.number : undefined
}

function onFailed<B extends TrackedBlock>(
  state: TrackerState<B>,
  asked: Asked,
  { kind, message, retryAfterMs }: TrackerEvent<B> & { readonly type: 'failed' },
): void {
  const { source } = asked
  const { backoffMs } = state.options.times
  rest(
    state,
    source,
    kind === 'limited'
      ? { why: 'limited', message, ms: Math.max(retryAfterMs, backoffMs) }
      : { why: 'errs', message },
  )
  goOnWithout(state, asked)
}

/** Settles a question that has no answer: nothing waits for it any more. */
function goOnWithout<B extends TrackedBlock>(state: TrackerState<B>, asked: Asked): void {
  switch (asked.type) {
    case 'vote':
      onClaim(state, asked, undefined)
      return
    case 'range':
      if (asked.plan === state.plan) replan(state)
      return
    case 'branch':
      if (state.branch === asked.branch) state.branch = undefined
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

/** Safe and finalized count where they are blocks of our chain. */
function settleMarks<B extends TrackedBlock>(state: TrackerState<B>): void {
  const { canonical, tags, sent, isBeginning } = state
  if (isBeginning) return
  // The writer is about to take back what is canonical.
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

/** Asks for heads that are due. */
function poll<B extends TrackedBlock>(state: TrackerState<B>): void {
  const { now, times } = state.options
  const leader = leaderOf(state)
  for (const source of candidates(state)) {
    const hasTags = source === leader && now() >= state.tagsAtMs
    if (source.polling !== undefined || (now() < source.pollAtMs && !hasTags)) continue
    if (hasTags) state.tagsAtMs = now() + times.tagsMs
    const question = ask(state, { type: 'poll', source })
    source.polling = question.request
    emit(state, { type: 'poll', ...question, hasTags })
  }
}

function wakeAtMs<B extends TrackedBlock>(state: TrackerState<B>): number {
  const now = state.options.now()
  const times = [state.statusAtMs]
  for (const source of candidates(state))
    if (source.polling === undefined) times.push(source.pollAtMs)
  for (const { rest } of state.sources) if (rest !== undefined) times.push(rest.untilMs)
  const leader = leaderOf(state)
  if (leader !== undefined && leader.polling === undefined) times.push(state.tagsAtMs)
  if (state.holdUntilMs > now) times.push(state.holdUntilMs)
  return Math.min(...times)
}

function tellStatus<B extends TrackedBlock>(state: TrackerState<B>): void {
  const { now, times } = state.options
  if (now() < state.statusAtMs) return
  state.statusAtMs = now() + times.statusMs
  emit(state, { type: 'status', status: statusOf(state) })
}

function statusOf<B extends TrackedBlock>(state: TrackerState<B>): TrackerStatus {
  const { sources, canonical, halted, isBeginning, progress } = state
  const head = leaderOf(state)?.head?.number
  return {
    head,
    canonical: canonical.number,
    upstreams: sources.map(({ name, head, rest }) => ({
      name,
      head: head?.number,
      rests: rest?.message,
    })),
    degraded: degradedBy(sources),
    halted: isBeginning ? beginsDoubt : halted && haltDoubt(halted),
    catchUp: head === undefined ? undefined : progress.show(canonical.number, head),
  }
}
