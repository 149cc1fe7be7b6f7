/** A state that is fetched, where our head cannot be gone on from: what says so, and what follows once it has begun anew. */
import { count, emit, replan, type Source, type TrackerState } from './tracker-state.ts'
import type { TrackedBlock, TrackerEvent } from './tracker-types.ts'

/** Blocks that came back in a row because their state could not be had: once is a moment. */
const MOST_LOSSES = 2

/** Whoever drives asks all upstreams; until then it goes on as it can. */
export function leave<B extends TrackedBlock>(
  state: TrackerState<B>,
  why: string,
  past?: number,
): void {
  const { now, times } = state.options
  if (state.lazyStart === undefined || state.isBeginning || now() < state.leftAtMs) return
  state.leftAtMs = now() + times.maxBackoffMs
  count(state, 'upstream_state_left')
  emit(state, { type: 'left', why, past })
}

export function checkDepth<B extends TrackedBlock>(state: TrackerState<B>, leader: Source): void {
  const depth = state.options.stateDepth?.()
  const behind = leader.head!.number - state.canonical.number
  if (depth !== undefined && behind > depth)
    leave(state, `our head is ${behind} blocks behind ${leader.name}, whose state reaches ${depth}`)
  else if (state.stateLosses >= MOST_LOSSES)
    leave(state, `the state of block ${state.canonical.number} cannot be had`)
}

export function onBeginning<B extends TrackedBlock>(state: TrackerState<B>): void {
  state.isBeginning = true
  state.sent = []
  state.branch = undefined
  replan(state)
}

export function onBegun<B extends TrackedBlock>(
  state: TrackerState<B>,
  { head, safe, finalized }: TrackerEvent<B> & { readonly type: 'begun' },
): void {
  onBeginning(state)
  state.isBeginning = false
  state.canonical = head
  state.lazyStart = head.number
  state.safe = safe
  state.finalized = finalized
  state.tags = { safe: undefined, finalized: undefined }
  state.stateLosses = 0
  state.refused.clear()
  const now = state.options.now()
  state.holdUntilMs = now
  // What somebody told of before may be of a chain that is left, and its height one that is kept of another.
  for (const source of state.sources) {
    source.head = undefined
    source.pollAtMs = Math.min(source.pollAtMs, now)
  }
  replan(state)
  if (state.halted === undefined) return
  state.halted = undefined
  emit(state, { type: 'resumed' })
}
