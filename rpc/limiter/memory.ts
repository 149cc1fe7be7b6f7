/**
 * Limiter rows of addresses in memory that several threads share. Rows are found by the hash of a
 * key and ordered by the end of their seconds. A thread uses them between `lock` and `unlock`.
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
} from './shared-rows.ts'
import { plusStall, type StallSum } from './stalls.ts'

/** Plain data that can be sent to a thread. */
export type LimiterMemory = {
  readonly buffer: SharedArrayBuffer
  /** Rows besides the overflow row. */
  readonly max: number
}
/** One second of an address. */
export type Second = {
  /** Points of the second, at least 1. */
  readonly limit: number
  /** Milliseconds since 1970. */
  readonly end: number
  readonly used: number
  readonly owed: number
}
/** Row that addresses share when all other rows are taken. */
export const OVERFLOW_ROW = 0

/** Indexes of words in the head. */
const [OLDEST, NEWEST] = [OWN_WORDS, OWN_WORDS + 1] as const
/** Indexes of words in a row. */
const [BEFORE, AFTER, USED, OWED, LIMIT, REFUSED] = [3, 4, 5, 6, 7, 8]
const ROW_WORDS = FIRST_WORD + 6
/**
 * Indexes of the total stall times (`StallSum`). Each row follows with the end of its second and
 * its granted stall time.
 */
const [STALLED, STALL_END, STALLS_OVER] = [0, 1, 2] as const
const FIRST_TIMES = 3
const ROW_TIMES = 2

const shapeOf = (max: number): RowShape => ({ max, rowWords: ROW_WORDS })
const timesFor = (max: number) => FIRST_TIMES + ROW_TIMES * (max + 1)

export function createLimiterMemory(max: number): LimiterMemory {
  const buffer = new SharedArrayBuffer(HEAD_BYTES + 8 * timesFor(max) + bytesOfRows(shapeOf(max)))
  seed(seedsOf(buffer))
  return { buffer, max }
}

/** This thread's access to the rows, ordered by the end of their seconds. */
export class Rows extends SharedRows {
  readonly #times: Float64Array

  /** @param thread number of this thread, from 1, for `clearEnded` */
  constructor({ buffer, max }: LimiterMemory, thread: number) {
    const times = timesFor(max)
    super(buffer, shapeOf(max), { thread, rowsAt: HEAD_BYTES + 8 * times })
    this.#times = new Float64Array(buffer, HEAD_BYTES, times)
  }

  /** Stall time of all threads in milliseconds. */
  get stalledMs(): number {
    return this.#times[STALLED]!
  }
  get stalls(): StallSum {
    const times = this.#times
    return { totalMs: this.stalledMs, overMs: times[STALLS_OVER]!, endedAt: times[STALL_END]! }
  }
  /** Adds a stall of a thread. */
  addStall(from: number, to: number): void {
    const { totalMs, overMs, endedAt } = plusStall(this.stalls, from, to)
    // The total is stored last, because a thread may end between two stores. Time is then lost
    // rather than granted twice.
    this.#times[STALL_END] = endedAt
    this.#times[STALLS_OVER] = overMs
    this.#times[STALLED] = totalMs
  }

  end = (row: number): number => this.#times[FIRST_TIMES + ROW_TIMES * row]!
  /** Returns the total stall time that the row was already granted points for. */
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
   * Starts another second with `used` points taken and no refusals. A thread may end between two
   * stores, so the old points stay until the new ones replace them. An address therefore never gets
   * more than the limit.
   */
  start(row: number, { limit, end, used, owed }: Second): void {
    const at = ROW_WORDS * row
    this.#times[FIRST_TIMES + ROW_TIMES * row] = end
    this.words[at + USED] = used
    this.words[at + OWED] = owed
    this.words[at + REFUSED] = 0
    // A row has a limit from this store on, which marks the row as used and complete.
    this.words[at + LIMIT] = limit
  }

  /** Adds the newest row for a new key. The caller checks that a row is free. */
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
  /** Row whose second ends first. undefined: no rows. */
  get oldest(): number | undefined {
    const row = this.head[OLDEST]!
    return row === 0 ? undefined : row
  }
  /** Moves a row to the end of the order. */
  toNewest(row: number): void {
    this.#unlink(row)
    this.#append(row)
  }

  /** Rebuilds the index and order of all used rows after an interrupted change. */
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
 * Frees the lock of an ended thread and rebuilds the index. Every row retains its points, because
 * each count is one word that is either written or not.
 * @returns whether the thread had the lock
 */
export const clearEnded = (memory: LimiterMemory, thread: number): boolean =>
  openLockOf(memory.buffer, thread, () => new Rows(memory, thread).mend())
