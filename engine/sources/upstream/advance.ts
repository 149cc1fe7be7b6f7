/**
 * Next steps of the chain: fetched blocks go to the writer, missing blocks are requested, and an
 * ancestor search continues.
 */

import { onAncestors, startAncestorSearch, stepAncestorSearch } from './ancestor-search.ts'
import { backoff, leaderOf } from './choice.ts'
import { send } from './deliver.ts'
import { checkDepth } from './resync.ts'
import {
  type AncestorSearch,
  emit,
  lineHash,
  openRequest,
  type Source,
  type TrackerState,
  tipOf,
  type UpstreamRequest,
} from './tracker-state.ts'
import type { TrackedBlock } from './tracker-types.ts'

export function advance<B extends TrackedBlock>(state: TrackerState<B>): void {
  const { ancestorSearch } = state
  if (state.isResyncing) return
  if (ancestorSearch === undefined) deliver(state)
  if (state.ancestorSearch !== undefined) {
    if (state.vote === undefined && !state.ancestorSearch.isRequested) continueAncestorSearch(state)
    return
  }
  const leader = leaderOf(state)
  if (leader === undefined) return
  checkDepth(state, leader)
  if (state.options.now() < state.pausedUntilMs) return
  if (leader.head!.number > tipOf(state).number) requestRanges(state, leader)
  else compareHead(state, leader)
}

/** Compares a head that is not above ours; a different hash starts an ancestor search. */
function compareHead<B extends TrackedBlock>(state: TrackerState<B>, leader: Source): void {
  const { number, hash } = leader.head!
  const ours = lineHash(state, number)
  if (ours === hash) goOn(state)
  if (ours === undefined || ours === hash || state.sent.length > 0) return
  startAncestorSearch(state, leader, { number, hash })
  continueAncestorSearch(state)
}

/**
 * Ends a halt for a deep reorg once the followed upstream has our chain. The report was wrong, or
 * has passed.
 */
function goOn<B extends TrackedBlock>(state: TrackerState<B>): void {
  if (state.halted?.why !== 'deep') return
  state.halted = undefined
  emit(state, { type: 'resumed' })
}

function continueAncestorSearch<B extends TrackedBlock>(state: TrackerState<B>): void {
  if (state.vote === undefined && state.ancestorSearch !== undefined)
    stepAncestorSearch(state, state.ancestorSearch)
}

/** Sends fetched blocks in order, as long as each stands on the one before. */
function deliver<B extends TrackedBlock>(state: TrackerState<B>): void {
  for (;;) {
    const tip = tipOf(state)
    const next = state.fetched.get(tip.number + 1)
    if (next === undefined) return
    const { block, source } = next
    if (block.parentHash !== tip.hash) {
      // An ancestor search starts only after the writer has made all sent blocks canonical.
      if (state.sent.length === 0)
        startAncestorSearch(state, source, { number: tip.number, hash: block.parentHash })
      return
    }
    state.fetched.delete(block.number)
    if (!send(state, block, source)) return
  }
}

function requestRanges<B extends TrackedBlock>(state: TrackerState<B>, source: Source): void {
  const { limits } = state.options
  const tip = tipOf(state)
  state.requestedTo = Math.max(state.requestedTo, tip.number)
  const isRange = (one: UpstreamRequest) => one.type === 'range' && one.plan === state.plan
  let ranges = [...state.requested.values()].filter(isRange).length
  for (;;) {
    const capacity = limits.catchUpBlocks - state.sent.length - (state.requestedTo - tip.number)
    const left = source.head!.number - state.requestedTo
    const blocks = Math.min(limits.catchUpRange, left, capacity)
    if (
      blocks <= 0 ||
      ranges >= limits.catchUpRanges ||
      bufferedBytes(state) >= limits.catchUpBytes
    )
      return
    const first = state.requestedTo + 1
    const range = { first, count: blocks }
    const question = openRequest(state, { type: 'range', source, ...range, plan: state.plan })
    emit(state, { type: 'fetch', ...question, ...range })
    state.requestedTo += blocks
    ranges++
  }
}

function bufferedBytes<B extends TrackedBlock>({ sent, fetched }: TrackerState<B>): number {
  let buffered = 0
  for (const { bytes } of sent) buffered += bytes
  for (const { block } of fetched.values()) buffered += block.bytes
  return buffered
}

/** Takes the response to a fetch. */
export function onBlocks<B extends TrackedBlock>(
  state: TrackerState<B>,
  request: UpstreamRequest,
  blocks: readonly B[],
): void {
  if (request.type === 'ancestors') {
    const { ancestorSearch } = state
    if (ancestorSearch === (request.ancestorSearch as AncestorSearch<B>))
      onAncestors(state, ancestorSearch, blocks)
    return
  }
  if (request.type !== 'range' || request.plan !== state.plan) return
  const { source, first } = request
  for (const block of blocks) state.fetched.set(block.number, { block, source })
  if (blocks.length > 0) source.emptySinceMs = undefined
  if (blocks.length < request.count) onFewer(state, source, first + blocks.length)
}

/**
 * Handles a short response: requests the rest again. An upstream that continues like this goes into
 * backoff.
 */
function onFewer<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  missing: number,
): void {
  const { now, times } = state.options
  // Requests below the missing block continue. Blocks above it have no parent.
  for (const [request, one] of state.requested)
    if (one.type === 'range' && one.first > missing) state.requested.delete(request)
  for (const number of state.fetched.keys()) if (number > missing) state.fetched.delete(number)
  state.requestedTo = missing - 1
  source.emptySinceMs ??= now()
  if (now() - source.emptySinceMs < times.standsMs) {
    // One address can have several nodes behind it, one of which lags for a moment.
    state.pausedUntilMs = now() + times.pollMs / 2
    return
  }
  source.emptySinceMs = undefined
  backoff(state, source, {
    why: 'lags',
    message: `it does not give block ${missing}, which it has told of`,
  })
}
