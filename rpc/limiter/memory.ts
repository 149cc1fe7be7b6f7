/**
 * What the limiter knows of each address, in memory that several threads share: rows found by the hash of a key, in the order in which
 * their seconds end. A thread works on it alone, between `lock` and `unlock`.
 */
import {
  bytesOfRows,
  FIRST_WORD,
  HEAD_BYTES,
  OWN_WORDS,
  openLockOf,
  type RowShape,
  SharedRows,
  seed,
  seedsOf,
} from '../seam/shared-rows.ts'
import { plusStall, type StallSum } from './stalls.ts'

/** Plain data: crosses a thread. */
export type LimiterMemory = {
  readonly buffer: SharedArrayBuffer
  /** Rows beside that of all who have none. */
  readonly most: number
}
/** One second of an address. */
export type Second = {
  /** At least 1. */
  readonly limit: number
  /** Milliseconds since 1970. */
  readonly end: number
  readonly used: number
  readonly owed: number
}
/** The row of all who find no room. */
export const OVERFLOW_ROW = 0

/** Words of the head. */
const [OLDEST, NEWEST] = [OWN_WORDS, OWN_WORDS + 1] as const
/** Words of a row. */
const [BEFORE, AFTER, USED, OWED, LIMIT, REFUSED] = [3, 4, 5, 6, 7, 8]
const ROW_WORDS = FIRST_WORD + 6
/** Of all stalls (`StallSum`); then of each row when its second ends, and for how much of all stalls it has points. */
const [STALLED, STALL_END, STALLS_OVER] = [0, 1, 2] as const
const FIRST_TIMES = 3
const ROW_TIMES = 2

const shapeOf = (most: number): RowShape => ({ most, rowWords: ROW_WORDS })
const timesFor = (most: number) => FIRST_TIMES + ROW_TIMES * (most + 1)

export function createLimiterMemory(most: number): LimiterMemory {
  const buffer = new SharedArrayBuffer(HEAD_BYTES + 8 * timesFor(most) + bytesOfRows(shapeOf(most)))
  seed(seedsOf(buffer))
  return { buffer, most }
}

/** The memory as seen by this thread: rows in the order in which their seconds end. */
export class Rows extends SharedRows {
  readonly #times: Float64Array

  /** @param thread names this one, for `clearEnded`; from 1 */
  constructor({ buffer, most }: LimiterMemory, thread: number) {
    const times = timesFor(most)
    super(buffer, shapeOf(most), { thread, rowsAt: HEAD_BYTES + 8 * times })
    this.#times = new Float64Array(buffer, HEAD_BYTES, times)
  }

  /** Of all threads, in milliseconds. */
  get stalledMs(): number {
    return this.#times[STALLED]!
  }
  get stalls(): StallSum {
    const times = this.#times
    return { totalMs: this.stalledMs, overMs: times[STALLS_OVER]!, endedAt: times[STALL_END]! }
  }
  /** A thread has stood still from one moment to another. */
  addStall(from: number, to: number): void {
    const { totalMs, overMs, endedAt } = plusStall(this.stalls, from, to)
    // The total is last: a thread that ends between two of these grants nothing, and nobody grants the same time again.
    this.#times[STALL_END] = endedAt
    this.#times[STALLS_OVER] = overMs
    this.#times[STALLED] = totalMs
  }

  end = (row: number): number => this.#times[FIRST_TIMES + ROW_TIMES * row]!
  /** For how much of all stalls it has been given points. */
  stallOf = (row: number): number => this.#times[FIRST_TIMES + ROW_TIMES * row + 1]!
  setStall(row: number, ms: number): void {
    this.#times[FIRST_TIMES + ROW_TIMES * row + 1] = ms
  }
  used = (row: number): number => this.words[ROW_WORDS * row + USED]!
  setUsed(row: number, points: number): void {
    this.words[ROW_WORDS * row + USED] = points
  }
  owed = (row: number): number => this.words[ROW_WORDS * row + OWED]!
  setOwed(row: number, points: number): void {
    this.words[ROW_WORDS * row + OWED] = points
  }
  limit = (row: number): number => this.words[ROW_WORDS * row + LIMIT]!
  refused = (row: number): number => this.words[ROW_WORDS * row + REFUSED]!
  addRefused(row: number): void {
    this.words[ROW_WORDS * row + REFUSED]!++
  }

  /**
   * Starts another second, of which `used` points are taken and none refused. A thread may end between any two of these stores: the
   * points of the second before stand until the new ones do, so that nobody has more than the limit.
   */
  begin(row: number, { limit, end, used, owed }: Second): void {
    const at = ROW_WORDS * row
    this.#times[FIRST_TIMES + ROW_TIMES * row] = end
    this.words[at + USED] = used
    this.words[at + OWED] = owed
    this.words[at + REFUSED] = 0
    // A row has a limit from here on, which says that it is in use and complete.
    this.words[at + LIMIT] = limit
  }

  /** A row for a key that has none, the newest. There must be room. */
  override add(key: string): number {
    const row = super.add(key)
    this.#append(row)
    return row
  }
  override remove(row: number): void {
    this.words[ROW_WORDS * row + LIMIT] = 0
    this.#unlink(row)
    super.remove(row)
  }
  /** The one whose second ends first; undefined: there is none. */
  get oldest(): number | undefined {
    const row = this.head[OLDEST]!
    return row === 0 ? undefined : row
  }
  /** Of all it ends last from here on. */
  toNewest(row: number): void {
    this.#unlink(row)
    this.#append(row)
  }

  /** Finds all rows in use again, in the order in which their seconds end, whatever of that was half done. */
  mend(): void {
    const found: number[] = []
    this.rebuild((row) => {
      const isInUse = this.limit(row) !== 0
      if (isInUse) found.push(row)
      return isInUse
    })
    this.head[OLDEST] = 0
    this.head[NEWEST] = 0
    for (const row of found.toSorted((a, b) => this.end(a) - this.end(b))) this.#append(row)
  }

  #append(row: number): void {
    const newest = this.head[NEWEST]!
    this.words[ROW_WORDS * row + BEFORE] = newest
    this.words[ROW_WORDS * row + AFTER] = 0
    if (newest === 0) this.head[OLDEST] = row
    else this.words[ROW_WORDS * newest + AFTER] = row
    this.head[NEWEST] = row
  }
  #unlink(row: number): void {
    const before = this.words[ROW_WORDS * row + BEFORE]!
    const after = this.words[ROW_WORDS * row + AFTER]!
    if (before === 0) this.head[OLDEST] = after
    else this.words[ROW_WORDS * before + AFTER] = after
    if (after === 0) this.head[NEWEST] = before
    else this.words[ROW_WORDS * after + BEFORE] = before
  }
}

/**
 * Frees the lock after the exit of a thread that may have ended inside. Every row keeps its points: each of them is one word, which is
 * written or not, and what finds the rows is made again. @returns whether the thread had the lock
 */
export const clearEnded = (memory: LimiterMemory, thread: number): boolean =>
  openLockOf(memory.buffer, thread, () => new Rows(memory, thread).mend())
