/**
 * Resync of a lazy state whose head cannot be extended: its triggers, and its effects on the
 * tracker.
 */
import { count, emit, replan, type Source, type TrackerState } from './tracker-state.ts'
import type { TrackedBlock, TrackerEvent } from './tracker-types.ts'

/** Lost states in a row that trigger a resync; a single one may be momentary. */
const MAX_LOSSES = 2

/**
 * Reports that the chain may have left our head. The driver then asks all upstreams, and the
 * tracker continues meanwhile.
 */
export function leave<B extends TrackedBlock>(
  state: TrackerState<B>,
  why: string,
  past?: number,
): void {
  const { now, times } = state.options
  if (state.lazyStart === undefined || state.isResyncing || now() < state.leftAtMs) return
  state.leftAtMs = now() + times.maxBackoffMs
  count(state, 'upstream_state_left')
  emit(state, { type: 'left', why, past })
}

export function checkDepth<B extends TrackedBlock>(state: TrackerState<B>, leader: Source): void {
  const depth = state.options.stateDepth?.()
  const lagBlocks = leader.head!.number - state.canonical.number
  if (depth !== undefined && lagBlocks > depth)
    leave(
      state,
      `our head is ${lagBlocks} blocks behind ${leader.name}, whose state reaches ${depth}`,
    )
  else if (state.stateLosses >= MAX_LOSSES)
    leave(state, `the state of block ${state.canonical.number} cannot be had`)
}

export function onResyncStart<B extends TrackedBlock>(state: TrackerState<B>): void {
  state.isResyncing = true
  state.sent = []
  state.ancestorSearch = undefined
  replan(state)
}

export function onResynced<B extends TrackedBlock>(
  state: TrackerState<B>,
  { head, safe, finalized }: TrackerEvent<B> & { readonly type: 'begun' },
): void {
  onResyncStart(state)
  state.isResyncing = false
  state.canonical = head
  state.lazyStart = head.number
  state.safe = safe
  state.finalized = finalized
  state.tags = { safe: undefined, finalized: undefined }
  state.stateLosses = 0
  state.refused.clear()
  const now = state.options.now()
  state.pausedUntilMs = now
  // Earlier heads may belong to the old chain, at heights that the new chain has with other blocks.
  for (const source of state.sources) {
    source.head = undefined
    source.pollAtMs = Math.min(source.pollAtMs, now)
  }
  replan(state)
  if (state.halted === undefined) return
  state.halted = undefined
  emit(state, { type: 'resumed' })
}
