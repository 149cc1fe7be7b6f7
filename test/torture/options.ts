/** What a run can be like. */
import type { Habits } from './driver.ts'
import type { SessionHabits } from './sessions.ts'

export const READERS = 3
/** By front: the numbers of those that it lends to. */
export const READERS_OF: readonly (readonly number[])[] = [[0, 1], [2]]

export type TortureOptions = {
  readonly seed: number
  /** Of the arena's pages. */
  readonly bytes: number
  readonly pageBytes: number
  /** Of a large transaction; one of `largeIn` is large. */
  readonly payloadBytes: number
  readonly largeIn: number
  readonly stepsPerSecond: number
  readonly foldDepth: number
  readonly undoWindow: number
  readonly historyBlocks: number
  readonly cacheEntries: number
  /** Processor time for which the arena may stay full before the writer gives up. */
  readonly graceSeconds: number
  readonly driver: Habits
  readonly readers: SessionHabits
  readonly front: SessionHabits
  /** Batches lent to readers at a time. */
  readonly loans: number
  /** Share of them that the front holds until they are taken over; others may come too late. */
  readonly heldLoans: number
  readonly killEveryMs: number
}
