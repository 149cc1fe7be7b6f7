/** Sends blocks to the writer, and handles its refusals. */
import type { Hex } from '../../primitives/bytes.ts'
import { DETACHED, EDIT, FULL, STATE, TYPE } from '../writer/checks.ts'
import { backoff, mayRespond, startVote } from './choice.ts'
import { leave } from './resync.ts'
import { count, emit, isUsable, replan, type Source, type TrackerState } from './tracker-state.ts'
import type { Halt, Refusal, TrackedBlock, TrackerEvent } from './tracker-types.ts'

const MAX_REFUSED = 64

/**
 * Sends the next block of the chain to the writer.
 * @returns false when the block was refused before
 */
export function send<B extends TrackedBlock>(
  state: TrackerState<B>,
  block: B,
  source: Source,
): boolean {
  if (isRefused(state, block, source)) {
    // The block will be requested again from the upstream that is followed then.
    replan(state)
    suspicion(state, block)
    return false
  }
  const { number, hash, gasUsed, bytes } = block
  state.sent.push({ number, hash, gasUsed, bytes, source })
  emit(state, { type: 'sealed', block })
  count(state, 'upstream_blocks')
  if (state.halted !== undefined) {
    state.halted = undefined
    emit(state, { type: 'resumed' })
  }
  return true
}

function isRefused<B extends TrackedBlock>(
  state: TrackerState<B>,
  { hash, unknown }: B,
  source: Source,
): boolean {
  const before = state.refused.get(hash)
  // Another upstream gives the whole block, so the claim of an unknown type was wrong.
  if (unknown === undefined && before?.isClaimed === true) state.refused.delete(hash)
  else if (before !== undefined) before.by.add(source)
  else if (unknown !== undefined) {
    const { type, at, isClaimed } = unknown
    const reason = `type 0x${type.toString(16)} of transaction ${at} is not supported`
    recordRefused(state, hash, { field: TYPE, reason, isClaimed, by: new Set([source]) })
  }
  return state.refused.has(hash)
}

function recordRefused<B extends TrackedBlock>(
  state: TrackerState<B>,
  hash: Hex,
  refusal: NonNullable<ReturnType<TrackerState<B>['refused']['get']>>,
): void {
  state.refused.set(hash, refusal)
  if (state.refused.size > MAX_REFUSED) state.refused.delete(state.refused.keys().next().value!)
  count(state, 'upstream_refused_blocks')
}

/** Handles a refusal, which also drops the blocks sent after the refused one. */
export function onRefused<B extends TrackedBlock>(
  state: TrackerState<B>,
  { number, hash, field, reason }: TrackerEvent<B> & { readonly type: 'refused' },
): void {
  const at = state.sent.findIndex((one) => one.hash === hash)
  // The block stood on a refused one, or its chain is no longer followed.
  if (at < 0) return
  const { source } = state.sent[at]!
  state.sent.length = at
  if (field === STATE || field === FULL || field === DETACHED) {
    // No upstream is at fault. The block is sent again, unless a reorg has removed it together with
    // its state.
    state.pausedUntilMs = state.options.now() + state.options.times.pollMs
    replan(state)
    if (field === STATE) onStateLost(state, { number, hash, source })
    return
  }
  recordRefused(state, hash, { field, reason, by: new Set([source]) })
  replan(state)
  suspicion(state, { number, hash })
}

/**
 * Counts a block without available state, and starts a vote. If others have another block, only
 * this source has that state.
 */
function onStateLost<B extends TrackedBlock>(
  state: TrackerState<B>,
  { number, hash, source }: { readonly source: Source } & Pick<TrackedBlock, 'number' | 'hash'>,
): void {
  state.stateLosses++
  const isAnyOther = state.sources.filter(isUsable).length > 2
  // With two upstreams, the first named wins any vote.
  if (isAnyOther && state.vote === undefined) startVote(state, number, new Map([[source, hash]]))
}

/**
 * Puts the block's upstreams into backoff and asks others. If all give the block, the chain halts.
 */
function suspicion<B extends TrackedBlock>(
  state: TrackerState<B>,
  { number, hash }: Pick<TrackedBlock, 'number' | 'hash'>,
): void {
  const refusal = state.refused.get(hash)!
  const { by } = refusal
  const message = `it gives block ${number} as ${hash}, ${problemOf(refusal, 'whose')}`
  // An upstream in backoff for failed calls may have recovered, so it is asked before a halt.
  const isAnybodyElse = state.sources.some((source) => mayRespond(source) && !by.has(source))
  if (isAnybodyElse) {
    for (const source of by)
      if (isUsable(source)) backoff(state, source, { why: 'suspected', message })
    return
  }
  for (const source of by) if (source.backoff?.why === 'suspected') source.backoff = undefined
  const { now, times } = state.options
  const names = [...by].map(({ name }) => name).join(' and ')
  const given = `block ${number} is ${hash} at ${names}, but ${problemOf(refusal, 'its')}`
  if (refusal.field !== TYPE) {
    state.pausedUntilMs = now() + times.maxBackoffMs
    replan(state)
    halt(state, 'refused', given)
  } else passBy(state, number, given)
}

/** Halts at a block of an unsupported type. A lazy state then restarts after the block. */
function passBy<B extends TrackedBlock>(
  state: TrackerState<B>,
  number: number,
  given: string,
): void {
  const { now, times } = state.options
  const isLazy = state.lazyStart !== undefined
  const hasNext = state.sources.some(({ head }) => head !== undefined && head.number > number)
  state.pausedUntilMs = now() + (isLazy && !hasNext ? times.pollMs : times.maxBackoffMs)
  replan(state)
  const after = isLazy
    ? 'the state begins anew after it'
    : 'a version that supports it goes on from this directory'
  halt(state, 'type', `${given}; ${after}`)
  if (hasNext) leave(state, given, number)
}

export function halt<B extends TrackedBlock>(
  state: TrackerState<B>,
  why: Halt,
  message: string,
): void {
  if (state.halted?.message === message) return
  state.halted = { why, message }
  emit(state, { type: 'halted', why, message })
}

function problemOf({ field, reason }: Refusal, whose: 'whose' | 'its'): string {
  if (field === EDIT)
    return `${whose} state was edited by hand: only the development chain that did it can go on`
  if (field === TYPE) return `${whose} ${reason}`
  const why = reason === undefined ? '' : `: ${reason}`
  return `${whose} ${field} is not what this node computes${why}`
}
