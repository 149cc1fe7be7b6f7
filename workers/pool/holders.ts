/**
 * Remembers which workers have replayed which blocks. A further trace of a block goes to such a
 * worker if it is free. Otherwise the trace does not wait: another worker replays the transactions
 * before it.
 */
import { MAX_REPLAYS } from '../../engine/execution/call/max-replays.ts'

export interface Holders {
  /**
   * Chooses a thread for a trace that replays `block`, and remembers the choice.
   * @param free the free threads, at least one
   */
  choose(free: readonly number[], block: string): number
  /** Forgets a thread that has ended. */
  forget(thread: number): void
  /** Traces of replayed blocks: `kept` ran on a worker that had the block, `begun` on another. */
  readonly counts: HolderCounts
}
export type HolderCounts = { readonly kept: number; readonly begun: number }

/** A block, and the turn in which it was last requested. */
type CachedReplay = { readonly block: string; readonly turn: number }

const NONE: readonly CachedReplay[] = []
const NEVER = -1

export function createHolders(): Holders {
  /** Replays of each thread, newest first, at most MAX_REPLAYS. */
  const replays = new Map<number, readonly CachedReplay[]>()
  const counts = { kept: 0, begun: 0 }
  let turn = 0

  const of = (thread: number): readonly CachedReplay[] => replays.get(thread) ?? NONE
  const requestedFor = (thread: number, block: string): number =>
    of(thread).find((one) => one.block === block)?.turn ?? NEVER
  /** Turn of the last request for the block that the thread would evict. */
  const loses = (thread: number): number => of(thread)[MAX_REPLAYS - 1]?.turn ?? NEVER

  return {
    choose(free, block) {
      /*
       * The latest user of the block has replayed the most of it when transactions are traced in
       * order.
       */
      const newest = max(free, (thread) => requestedFor(thread, block))
      const isCached = requestedFor(newest, block) !== NEVER
      const thread = isCached ? newest : max(free, (one) => -loses(one))
      const others = of(thread).filter((one) => one.block !== block)
      replays.set(thread, [{ block, turn: turn++ }, ...others].slice(0, MAX_REPLAYS))
      if (isCached) counts.kept++
      else counts.begun++
      return thread
    },
    forget(thread) {
      replays.delete(thread)
    },
    counts,
  }
}

/** Returns the first thread with the largest value. */
const max = (threads: readonly number[], value: (thread: number) => number): number =>
  threads.reduce((a, b) => (value(b) > value(a) ? b : a))
