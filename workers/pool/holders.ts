/**
 * Which workers have replayed which blocks, as far as this side knows: a further trace of a block goes to one of them, if it is free. Nobody
 * waits for it: another worker executes what stands before the transaction itself.
 */
import { MOST_REPLAYS } from '../../engine/execution/call/most-replays.ts'

export interface Holders {
  /** Who of those that are free, and not none, takes a trace that replays the block, which it has from then on. */
  choose(free: readonly number[], block: string): number
  /** The thread has ended. */
  forget(thread: number): void
  /** Traces, by whether their worker had their block. */
  readonly counts: HolderCounts
}
export type HolderCounts = { readonly kept: number; readonly begun: number }

/** A block, and the turn in which it was last asked for. */
type Held = { readonly block: string; readonly turn: number }

const NONE: readonly Held[] = []
const NEVER = -1

export function createHolders(): Holders {
  /** By thread, the newest first, as many as it keeps. */
  const held = new Map<number, readonly Held[]>()
  const counts = { kept: 0, begun: 0 }
  let turn = 0

  const of = (thread: number): readonly Held[] => held.get(thread) ?? NONE
  const askedFor = (thread: number, block: string): number =>
    of(thread).find((one) => one.block === block)?.turn ?? NEVER
  /** When that was last asked for which it loses to a further block. */
  const loses = (thread: number): number => of(thread)[MOST_REPLAYS - 1]?.turn ?? NEVER

  return {
    choose(free, block) {
      // Of several that have it, who had it last is the furthest where transactions are traced in their order.
      const newest = most(free, (thread) => askedFor(thread, block))
      const isKept = askedFor(newest, block) !== NEVER
      const thread = isKept ? newest : most(free, (one) => -loses(one))
      const others = of(thread).filter((one) => one.block !== block)
      held.set(thread, [{ block, turn: turn++ }, ...others].slice(0, MOST_REPLAYS))
      if (isKept) counts.kept++
      else counts.begun++
      return thread
    },
    forget(thread) {
      held.delete(thread)
    },
    counts,
  }
}

/** The first of those with the largest value. */
const most = (threads: readonly number[], value: (thread: number) => number): number =>
  threads.reduce((a, b) => (value(b) > value(a) ? b : a))
