/**
 * Search for the common ancestor with another chain: down by parent hash to a block of ours, then
 * up again, oldest first.
 */
import type { Hex } from '../../primitives/bytes.ts'
import { backoff, startVote } from './choice.ts'
import { halt, send } from './deliver.ts'
import { leave } from './resync.ts'
import {
  type AncestorSearch,
  count,
  emit,
  isUsable,
  lineHash,
  openRequest,
  replan,
  type Source,
  type TrackerState,
} from './tracker-state.ts'
import type { TrackedBlock } from './tracker-types.ts'

/**
 * Starts a search where an upstream has another block than ours. The writer has made all sent
 * blocks canonical.
 */
export function startAncestorSearch<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  { number, hash }: { readonly number: number; readonly hash: Hex },
): void {
  replan(state)
  state.ancestorSearch = { source, blocks: [], number, hash, isRequested: false, isVoted: false }
}

/**
 * Takes the next step down, or ends the search. At its end the other upstreams vote on the lowest
 * block that differs from ours. All of them have that height, while few may have the top yet.
 */
export function stepAncestorSearch<B extends TrackedBlock>(
  state: TrackerState<B>,
  ancestorSearch: AncestorSearch<B>,
): void {
  const { number, hash, source, blocks } = ancestorSearch
  const isOurs = lineHash(state, number) === hash
  const isTooLow = number <= Math.max(state.finalized, oldestFork(state))
  if (!isOurs && !isTooLow) {
    requestDown(state, ancestorSearch)
    return
  }
  const lowest = isOurs ? blocks[0] : { number, hash }
  if (!ancestorSearch.isVoted && lowest !== undefined) {
    ancestorSearch.isVoted = true
    startVote(state, lowest.number, new Map([[source, lowest.hash]]))
    if (state.vote !== undefined || state.ancestorSearch !== ancestorSearch) return
  }
  // A block may have become final while the branch was fetched.
  if (lowest !== undefined && lowest.number <= state.finalized) denyFinal(state, source, lowest)
  else if (isOurs) reorgTo(state, ancestorSearch)
  else goTooDeep(state, ancestorSearch)
}

/**
 * Puts an upstream that contradicts a final block into backoff. When no upstream is left, the chain
 * halts.
 */
function denyFinal<B extends TrackedBlock>(
  state: TrackerState<B>,
  source: Source,
  { number, hash }: { readonly number: number; readonly hash: Hex },
): void {
  const conflict = `block ${number}, which is final, is ${hash} there, ${lineHash(state, number)} here`
  backoff(state, source, { why: 'final', message: conflict })
  // Upstreams that lost a vote to this one may have been right.
  for (const one of state.sources) if (one.backoff?.why === 'contradicts') one.backoff = undefined
  if (state.sources.some(isUsable)) return
  const others = `block ${number} is final here and not what ${source.name} has`
  halt(state, 'deep', `${others}: give another --upstream, or start again with another --datadir`)
}

function goTooDeep<B extends TrackedBlock>(
  state: TrackerState<B>,
  { number, hash, source }: AncestorSearch<B>,
): void {
  const { now, times, undoBlocks } = state.options
  const { lazyStart } = state
  state.ancestorSearch = undefined
  // One upstream alone may say so, or only for a moment, so a pause precedes the next search.
  state.pausedUntilMs = now() + times.maxBackoffMs
  const differs = `block ${number} is ${lineHash(state, number)} here and ${hash} at ${source.name}`
  const isBelowStart = lazyStart !== undefined && number <= lazyStart
  const retained = isBelowStart
    ? `block ${lazyStart}, at which the state begins`
    : `the ${undoBlocks} blocks that can be taken back`
  const advice =
    lazyStart === undefined
      ? 'start again with another --datadir'
      : 'the state begins anew where most upstreams say so'
  halt(state, 'deep', `${differs}: the chain was replaced deeper than ${retained}; ${advice}`)
  leave(state, differs)
}

const oldestFork = <B extends TrackedBlock>({
  canonical,
  options,
  lazyStart,
}: TrackerState<B>): number => Math.max(canonical.number - options.undoBlocks, lazyStart ?? 0)

function requestDown<B extends TrackedBlock>(
  state: TrackerState<B>,
  ancestorSearch: AncestorSearch<B>,
): void {
  const { number, source } = ancestorSearch
  const { catchUpRange } = state.options.limits
  const first = Math.max(number - catchUpRange + 1, oldestFork(state) + 1, state.finalized + 1)
  ancestorSearch.isRequested = true
  const question = openRequest(state, { type: 'ancestors', source, ancestorSearch })
  emit(state, { type: 'fetch', ...question, first, count: number - first + 1 })
}

/**
 * Takes blocks of the branch. A block that does not match its child ends the search, as does an
 * empty response.
 */
export function onAncestors<B extends TrackedBlock>(
  state: TrackerState<B>,
  ancestorSearch: AncestorSearch<B>,
  blocks: readonly B[],
): void {
  ancestorSearch.isRequested = false
  if (blocks.length === 0) giveUpAncestorSearch(state, ancestorSearch)
  for (const block of blocks.toReversed()) {
    if (block.number !== ancestorSearch.number || block.hash !== ancestorSearch.hash) {
      giveUpAncestorSearch(state, ancestorSearch)
      return
    }
    ancestorSearch.blocks.unshift(block)
    ancestorSearch.number--
    ancestorSearch.hash = block.parentHash
    if (lineHash(state, ancestorSearch.number) === ancestorSearch.hash) return
  }
}

/** Gives up the search and polls the upstream again, because its head has changed meanwhile. */
function giveUpAncestorSearch<B extends TrackedBlock>(
  state: TrackerState<B>,
  ancestorSearch: AncestorSearch<B>,
): void {
  const { now, times } = state.options
  state.ancestorSearch = undefined
  state.pausedUntilMs = now() + times.pollMs
  ancestorSearch.source.pollAtMs = now()
}

function reorgTo<B extends TrackedBlock>(
  state: TrackerState<B>,
  ancestorSearch: AncestorSearch<B>,
): void {
  const { blocks, number, source } = ancestorSearch
  const replaced = state.canonical.number - number
  state.ancestorSearch = undefined
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
  // The branch may end below our old head.
  replan(state)
}
