/** Options of a run. */
import type { Habits } from './driver.ts'
import type { SessionHabits } from './sessions.ts'

export const READERS = 3
/** Indexes of the readers to which each front lends. */
export const READERS_OF: readonly (readonly number[])[] = [[0, 1], [2]]

export type TortureOptions = {
  readonly seed: number
  /** Bytes of the arena's pages. */
  readonly bytes: number
  readonly pageBytes: number
  /** Bytes of a large transaction; one in `largeIn` is large. */
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
  /** Batches lent to readers at the same time. */
  readonly loans: number
  /**
   * Share of the batches that the front holds until a reader has adopted them; others may come too
   * late.
   */
  readonly pinnedLoans: number
  readonly killEveryMs: number
}
