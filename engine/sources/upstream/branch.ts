/** Another chain than ours: down by parent hash to a block that we have, then up again, oldest first. */
import type { Hex } from '../../primitives/bytes.ts'
import { leave } from './begun.ts'
import { rest, startVote } from './choice.ts'
import { halt, send } from './deliver.ts'
import {
  ask,
  type Branch,
  count,
  emit,
  isUsable,
  lineHash,
  replan,
  type Source,
  type TrackerState,
} from './tracker-state.ts'
import type { TrackedBlock } from './tracker-types.ts'

/** An upstream has another block than ours at a height. The writer has made canonical what it was sent. */
export function beginBranch<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  { number, hash }: { readonly number: number; readonly hash: Hex },
): void {
  replan(state)
  state.branch = { source, blocks: [], number, hash, isAsked: false, isVoted: false }
}

/**
 * The next step down, or the end. At the end the others are asked for the lowest block in which the
 * branch differs from ours: all of them have that height, while at the top few may have told yet.
 */
export function walk<B extends TrackedBlock>(state: TrackerState<B>, branch: Branch<B>): void {
  const { number, hash, source, blocks } = branch
  const isOurs = lineHash(state, number) === hash
  const isTooLow = number <= Math.max(state.finalized, oldestFork(state))
  if (!isOurs && !isTooLow) {
    askDown(state, branch)
    return
  }
  const lowest = isOurs ? blocks[0] : { number, hash }
  if (!branch.isVoted && lowest !== undefined) {
    branch.isVoted = true
    startVote(state, lowest.number, new Map([[source, lowest.hash]]))
    if (state.vote !== undefined || state.branch !== branch) return
  }
  // A block may have become final while the branch was fetched.
  if (lowest !== undefined && lowest.number <= state.finalized) denyFinal(state, source, lowest)
  else if (isOurs) takeBranch(state, branch)
  else goTooDeep(state, branch)
}

/** An upstream that says so is not asked; where none is left that says anything else, the chain stands still. */
function denyFinal<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  { number, hash }: { readonly number: number; readonly hash: Hex },
): void {
  const told = `block ${number}, which is final, is ${hash} there, ${lineHash(state, number)} here`
  rest(state, source, { why: 'final', message: told })
  // Whoever was outvoted by it may have been right.
  for (const one of state.sources) if (one.rest?.why === 'contradicts') one.rest = undefined
  if (state.sources.some(isUsable)) return
  const others = `block ${number} is final here and not what ${source.name} has`
  halt(state, 'deep', `${others}: give another --upstream, or start again with another --datadir`)
}

function goTooDeep<B extends TrackedBlock>(
  state: TrackerState<B>,
  { number, hash, source }: Branch<B>,
): void {
  const { now, times, undoBlocks } = state.options
  const { lazyStart } = state
  state.branch = undefined
  // It may be that of one upstream, or of a moment.
  state.holdUntilMs = now() + times.maxBackoffMs
  const differs = `block ${number} is ${lineHash(state, number)} here and ${hash} at ${source.name}`
  const isBelowStart = lazyStart !== undefined && number <= lazyStart
  const kept = isBelowStart
    ? `block ${lazyStart}, at which the state begins`
    : `the ${undoBlocks} blocks that can be taken back`
  const advice =
    lazyStart === undefined
      ? 'start again with another --datadir'
      : 'the state begins anew where most upstreams say so'
  halt(state, 'deep', `${differs}: the chain was replaced deeper than ${kept}; ${advice}`)
  leave(state, differs)
}

const oldestFork = <B extends TrackedBlock>({
  canonical,
  options,
  lazyStart,
}: TrackerState<B>): number => Math.max(canonical.number - options.undoBlocks, lazyStart ?? 0)

function askDown<B extends TrackedBlock>(state: TrackerState<B>, branch: Branch<B>): void {
  const { number, source } = branch
  const { catchUpRange } = state.options.limits
  const first = Math.max(number - catchUpRange + 1, oldestFork(state) + 1, state.finalized + 1)
  branch.isAsked = true
  const question = ask(state, { type: 'branch', source, branch })
  emit(state, { type: 'fetch', ...question, first, count: number - first + 1 })
}

/** Blocks that are not what their children say end it, and so does an answer without any. */
export function onBranchBlocks<B extends TrackedBlock>(
  state: TrackerState<B>,
  branch: Branch<B>,
  blocks: readonly B[],
): void {
  branch.isAsked = false
  if (blocks.length === 0) giveUpBranch(state, branch)
  for (const block of blocks.toReversed()) {
    if (block.number !== branch.number || block.hash !== branch.hash) {
      giveUpBranch(state, branch)
      return
    }
    branch.blocks.unshift(block)
    branch.number--
    branch.hash = block.parentHash
    if (lineHash(state, branch.number) === branch.hash) return
  }
}

/** Gives the branch up and polls the upstream again, because its head has changed meanwhile. */
function giveUpBranch<B extends TrackedBlock>(state: TrackerState<B>, branch: Branch<B>): void {
  const { now, times } = state.options
  state.branch = undefined
  state.holdUntilMs = now() + times.pollMs
  branch.source.pollAtMs = now()
}

function takeBranch<B extends TrackedBlock>(state: TrackerState<B>, branch: Branch<B>): void {
  const { blocks, number, source } = branch
  const replaced = state.canonical.number - number
  state.branch = undefined
  count(state, 'upstream_reorgs')
  count(state, 'upstream_reorg_blocks', replaced)
  emit(state, {
    type: 'warning',
    message: `the chain goes on from block ${number} in another way: ${replaced} blocks are replaced`,
  })
  if (state.safe > number) {
    state.safe = Math.max(state.finalized, number)
    emit(state, { type: 'marks', safe: state.safe, finalized: state.finalized })
  }
  for (const block of blocks) if (!send(state, block, source)) break
  // Its top may be below what was ours.
  replan(state)
}
