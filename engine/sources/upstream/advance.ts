/** The next steps of the chain: what was fetched goes to the writer, what is missing is asked for, a branch is walked. */
import { checkDepth } from './begun.ts'
import { beginBranch, onBranchBlocks, walk } from './branch.ts'
import { leaderOf, rest } from './choice.ts'
import { send } from './deliver.ts'
import {
  type Asked,
  ask,
  type Branch,
  emit,
  lineHash,
  type Source,
  type TrackerState,
  tipOf,
} from './tracker-state.ts'
import type { TrackedBlock } from './tracker-types.ts'

export function advance<B extends TrackedBlock>(state: TrackerState<B>): void {
  const { branch } = state
  if (state.isBeginning) return
  if (branch === undefined) deliver(state)
  if (state.branch !== undefined) {
    if (state.vote === undefined && !state.branch.isAsked) walkOn(state)
    return
  }
  const leader = leaderOf(state)
  if (leader === undefined) return
  checkDepth(state, leader)
  if (state.options.now() < state.holdUntilMs) return
  if (leader.head!.number > tipOf(state).number) askRanges(state, leader)
  else compareHead(state, leader)
}

/** A head that is not above ours is ours, or that of a branch. */
function compareHead<B extends TrackedBlock>(state: TrackerState<B>, leader: Source): void {
  const { number, hash } = leader.head!
  const ours = lineHash(state, number)
  if (ours === hash) goOn(state)
  if (ours === undefined || ours === hash || state.sent.length > 0) return
  beginBranch(state, leader, { number, hash })
  walkOn(state)
}

/** Whoever is followed now has our chain: what was told of a deeper branch was another one's word, or one of a moment. */
function goOn<B extends TrackedBlock>(state: TrackerState<B>): void {
  if (state.halted?.why !== 'deep') return
  state.halted = undefined
  emit(state, { type: 'resumed' })
}

function walkOn<B extends TrackedBlock>(state: TrackerState<B>): void {
  if (state.vote === undefined && state.branch !== undefined) walk(state, state.branch)
}

/** In order, as far as one stands on the other. */
function deliver<B extends TrackedBlock>(state: TrackerState<B>): void {
  for (;;) {
    const tip = tipOf(state)
    const next = state.fetched.get(tip.number + 1)
    if (next === undefined) return
    const { block, source } = next
    if (block.parentHash !== tip.hash) {
      // The writer goes back from where it stands, so it has to stand.
      if (state.sent.length === 0)
        beginBranch(state, source, { number: tip.number, hash: block.parentHash })
      return
    }
    state.fetched.delete(block.number)
    if (!send(state, block, source)) return
  }
}

function askRanges<B extends TrackedBlock>(state: TrackerState<B>, source: Source): void {
  const { limits } = state.options
  const tip = tipOf(state)
  state.askedTo = Math.max(state.askedTo, tip.number)
  const isRange = (one: Asked) => one.type === 'range' && one.plan === state.plan
  let ranges = [...state.asked.values()].filter(isRange).length
  for (;;) {
    const room = limits.catchUpBlocks - state.sent.length - (state.askedTo - tip.number)
    const left = source.head!.number - state.askedTo
    const blocks = Math.min(limits.catchUpRange, left, room)
    if (blocks <= 0 || ranges >= limits.catchUpRanges || heldBytes(state) >= limits.catchUpBytes)
      return
    const first = state.askedTo + 1
    const range = { first, count: blocks }
    const question = ask(state, { type: 'range', source, ...range, plan: state.plan })
    emit(state, { type: 'fetch', ...question, ...range })
    state.askedTo += blocks
    ranges++
  }
}

function heldBytes<B extends TrackedBlock>({ sent, fetched }: TrackerState<B>): number {
  let held = 0
  for (const { bytes } of sent) held += bytes
  for (const { block } of fetched.values()) held += block.bytes
  return held
}

/** The answer to a fetch. */
export function onBlocks<B extends TrackedBlock>(
  state: TrackerState<B>,
  asked: Asked,
  blocks: readonly B[],
): void {
  if (asked.type === 'branch') {
    const { branch } = state
    if (branch === (asked.branch as Branch<B>)) onBranchBlocks(state, branch, blocks)
    return
  }
  if (asked.type !== 'range' || asked.plan !== state.plan) return
  const { source, first } = asked
  for (const block of blocks) state.fetched.set(block.number, { block, source })
  if (blocks.length > 0) source.emptySinceMs = undefined
  if (blocks.length < asked.count) onFewer(state, source, first + blocks.length)
}

/** Fewer than asked for: the rest is asked for again, and an upstream that goes on like this rests. */
function onFewer<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  missing: number,
): void {
  const { now, times } = state.options
  // What is asked for below goes on; what is above stands on nothing.
  for (const [request, one] of state.asked)
    if (one.type === 'range' && one.first > missing) state.asked.delete(request)
  for (const number of state.fetched.keys()) if (number > missing) state.fetched.delete(number)
  state.askedTo = missing - 1
  source.emptySinceMs ??= now()
  if (now() - source.emptySinceMs < times.standsMs) {
    // Behind one address there may be several nodes, one of which is a moment late.
    state.holdUntilMs = now() + times.pollMs / 2
    return
  }
  source.emptySinceMs = undefined
  rest(state, source, {
    why: 'lags',
    message: `it does not give block ${missing}, which it has told of`,
  })
}
