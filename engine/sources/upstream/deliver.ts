/** Blocks for the writer, and what follows when it refuses one. */
import type { Hex } from '../../primitives/bytes.ts'
import { EDIT, FULL, STATE, TYPE } from '../writer/checks.ts'
import { leave } from './begun.ts'
import { mayAnswer, rest } from './choice.ts'
import { count, emit, isUsable, replan, type Source, type TrackerState } from './tracker-state.ts'
import type { Halt, Refusal, TrackedBlock, TrackerEvent } from './tracker-types.ts'

/** Refused blocks that are remembered. */
const MAX_REFUSED = 64

/** The next block of the chain. False: the writer has refused it before. */
export function send<B extends TrackedBlock>(
  state: TrackerState<B>,
  block: B,
  source: Source,
): boolean {
  if (isRefused(state, block, source)) {
    // It is asked for again, of whoever is followed then.
    replan(state)
    doubt(state, block)
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
  // Somebody shows all of the block, so whoever gave no bytes of a transaction was wrong about it.
  if (unknown === undefined && before?.isClaimed === true) state.refused.delete(hash)
  else if (before !== undefined) before.by.add(source)
  else if (unknown !== undefined) {
    const { type, at, isClaimed } = unknown
    const reason = `type 0x${type.toString(16)} of transaction ${at} is not supported`
    noteRefused(state, hash, { field: TYPE, reason, isClaimed, by: new Set([source]) })
  }
  return state.refused.has(hash)
}

function noteRefused<B extends TrackedBlock>(
  state: TrackerState<B>,
  hash: Hex,
  refusal: NonNullable<ReturnType<TrackerState<B>['refused']['get']>>,
): void {
  state.refused.set(hash, refusal)
  if (state.refused.size > MAX_REFUSED) state.refused.delete(state.refused.keys().next().value!)
  count(state, 'upstream_refused_blocks')
}

/** What was sent on it is gone with it. */
export function onRefused<B extends TrackedBlock>(
  state: TrackerState<B>,
  { number, hash, field, reason }: TrackerEvent<B> & { readonly type: 'refused' },
): void {
  const at = state.sent.findIndex((one) => one.hash === hash)
  // Of what stood on an earlier one, or of a chain that is not followed any more.
  if (at < 0) return
  const { source } = state.sent[at]!
  state.sent.length = at
  if (field === STATE || field === FULL) {
    // Nobody has done wrong: it is sent again, unless its chain is left, whose state is gone.
    state.holdUntilMs = state.options.now() + state.options.times.pollMs
    if (field === STATE) state.stateLosses++
    replan(state)
    return
  }
  noteRefused(state, hash, { field, reason, by: new Set([source]) })
  replan(state)
  doubt(state, { number, hash })
}

/** Whoever gave it rests, and another one is asked; where all give it, the chain stands still. */
function doubt<B extends TrackedBlock>(
  state: TrackerState<B>,
  { number, hash }: Pick<TrackedBlock, 'number' | 'hash'>,
): void {
  const refusal = state.refused.get(hash)!
  const { by } = refusal
  const message = `it gives block ${number} as ${hash}, ${problemOf(refusal, 'whose')}`
  // One that rests because it did not answer may have recovered: it is asked before the chain stands still.
  const isAnybodyElse = state.sources.some((source) => mayAnswer(source) && !by.has(source))
  if (isAnybodyElse) {
    for (const source of by) if (isUsable(source)) rest(state, source, { why: 'doubted', message })
    return
  }
  for (const source of by) if (source.rest?.why === 'doubted') source.rest = undefined
  const { now, times } = state.options
  const names = [...by].map(({ name }) => name).join(' and ')
  const given = `block ${number} is ${hash} at ${names}, but ${problemOf(refusal, 'its')}`
  if (refusal.field !== TYPE) {
    state.holdUntilMs = now() + times.maxBackoffMs
    replan(state)
    halt(state, 'refused', given)
  } else passBy(state, number, given)
}

/** A lazy state begins anew after a block that nobody can execute; a whole one stands still. */
function passBy<B extends TrackedBlock>(
  state: TrackerState<B>,
  number: number,
  given: string,
): void {
  const { now, times } = state.options
  const isLazy = state.lazyStart !== undefined
  const hasNext = state.sources.some(({ head }) => head !== undefined && head.number > number)
  state.holdUntilMs = now() + (isLazy && !hasNext ? times.pollMs : times.maxBackoffMs)
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
