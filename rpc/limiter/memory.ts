/**
 * What the limiter knows of each address, in memory that several threads share: rows found by the hash of a key, in the order in which
 * their seconds end. A thread works on it alone, between `lock` and `unlock`.
 */
import { randomFillSync } from 'node:crypto'

/** Plain data: crosses a thread. */
export type LimiterMemory = {
  readonly buffer: SharedArrayBuffer
  /** Rows beside that of all who have none. */
  readonly most: number
}
/** The row of all who find no room. */
export const OVERFLOW_ROW = 0

/** Words at the beginning. */
const [LOCK, SIZE, FREE, FRESH, OLDEST, NEWEST] = [0, 1, 2, 3, 4, 5] as const
const SEEDS = 6
const HEAD_BYTES = 64
/** Of the lock: nobody has it; else twice the thread that has it, and 1 where another may wait for it. One word, so that no end comes between. */
const OPEN = 0
const AWAITED = 1
/** Words of a row. */
const [HASH, BUCKET_NEXT, BEFORE, AFTER, USED, OWED, LIMIT, REFUSED] = [0, 2, 3, 4, 5, 6, 7, 8]
const ROW_WORDS = 9
/** Milliseconds of all stalls, and when the newest of them ended; then of each row when its second ends, and for how much of all stalls it has points. */
const [STALLED, STALL_END] = [0, 1] as const
const FIRST_TIMES = 2
const ROW_TIMES = 2

const bucketsFor = (most: number) => 2 ** Math.ceil(Math.log2(most + 1))

export function createLimiterMemory(most: number): LimiterMemory {
  const rows = most + 1
  const times = 8 * (FIRST_TIMES + ROW_TIMES * rows)
  const buffer = new SharedArrayBuffer(
    HEAD_BYTES + times + 4 * (ROW_WORDS * rows + bucketsFor(most)),
  )
  // Keys are compared by their hashes: nobody outside is to know which have the same.
  randomFillSync(new Int32Array(buffer, 4 * SEEDS, 2))
  return { buffer, most }
}

/** The memory as seen by this thread. */
export class Rows {
  readonly #head: Int32Array
  readonly #words: Int32Array
  readonly #buckets: Int32Array
  readonly #times: Float64Array
  readonly #most: number
  readonly #thread: number
  /** Of the key that was looked for last. */
  #a = 0
  #b = 0

  /** @param thread names this one, for `clearEnded`; from 1 */
  constructor({ buffer, most }: LimiterMemory, thread: number) {
    const rows = most + 1
    const times = FIRST_TIMES + ROW_TIMES * rows
    this.#most = most
    this.#thread = thread
    this.#head = new Int32Array(buffer, 0, HEAD_BYTES / 4)
    this.#times = new Float64Array(buffer, HEAD_BYTES, times)
    const wordsAt = HEAD_BYTES + 8 * times
    this.#words = new Int32Array(buffer, wordsAt, ROW_WORDS * rows)
    this.#buckets = new Int32Array(buffer, wordsAt + 4 * ROW_WORDS * rows, bucketsFor(most))
  }

  /** Waits for another thread, which has it for less than a microsecond, but where its core was taken from it. */
  lock(): void {
    const head = this.#head
    const own = 2 * this.#thread
    let seen = Atomics.compareExchange(head, LOCK, OPEN, own)
    while (seen !== OPEN) {
      const awaited = seen | AWAITED
      if (seen === awaited || Atomics.compareExchange(head, LOCK, seen, awaited) === seen)
        Atomics.wait(head, LOCK, awaited)
      // Others may wait as well.
      seen = Atomics.compareExchange(head, LOCK, OPEN, own | AWAITED)
    }
  }
  unlock(): void {
    if ((Atomics.exchange(this.#head, LOCK, OPEN) & AWAITED) !== 0)
      Atomics.notify(this.#head, LOCK, 1)
  }

  get size(): number {
    return this.#head[SIZE]!
  }
  get isFull(): boolean {
    return this.size >= this.#most
  }
  /** Of all threads, each moment once. */
  get stalledMs(): number {
    return this.#times[STALLED]!
  }
  /** A thread has stood still from one moment to another. */
  addStall(from: number, to: number): void {
    const before = this.#times[STALL_END]!
    // The clock may have been set back.
    const since = before > to ? from : Math.max(from, before)
    this.#times[STALLED] = this.stalledMs + to - since
    this.#times[STALL_END] = to
  }

  end = (row: number): number => this.#times[FIRST_TIMES + ROW_TIMES * row]!
  /** For how much of all stalls it has been given points. */
  stallOf = (row: number): number => this.#times[FIRST_TIMES + ROW_TIMES * row + 1]!
  setStall(row: number, ms: number): void {
    this.#times[FIRST_TIMES + ROW_TIMES * row + 1] = ms
  }
  used = (row: number): number => this.#words[ROW_WORDS * row + USED]!
  setUsed(row: number, points: number): void {
    this.#words[ROW_WORDS * row + USED] = points
  }
  owed = (row: number): number => this.#words[ROW_WORDS * row + OWED]!
  setOwed(row: number, points: number): void {
    this.#words[ROW_WORDS * row + OWED] = points
  }
  limit = (row: number): number => this.#words[ROW_WORDS * row + LIMIT]!
  refused = (row: number): number => this.#words[ROW_WORDS * row + REFUSED]!
  addRefused(row: number): void {
    this.#words[ROW_WORDS * row + REFUSED]!++
  }

  /** Another second: nothing is taken of it and nothing refused; what is owed stays. */
  begin(row: number, limit: number, end: number): void {
    const at = ROW_WORDS * row
    this.#times[FIRST_TIMES + ROW_TIMES * row] = end
    this.#words[at + USED] = 0
    this.#words[at + REFUSED] = 0
    this.#words[at + LIMIT] = limit
  }

  /** undefined: it has none. */
  find(key: string): number | undefined {
    this.#hash(key)
    const words = this.#words
    let row = this.#buckets[this.#bucket()]!
    while (row !== 0) {
      const at = ROW_WORDS * row
      if (words[at + HASH] === this.#a && words[at + HASH + 1] === this.#b) return row
      row = words[at + BUCKET_NEXT]!
    }
    return undefined
  }

  /** A row for a key that has none, the newest. There must be room. */
  add(key: string): number {
    this.#hash(key)
    const head = this.#head
    const words = this.#words
    const free = head[FREE]!
    const row = free === 0 ? ++head[FRESH]! : free
    const at = ROW_WORDS * row
    if (free !== 0) head[FREE] = words[at + BUCKET_NEXT]!
    const bucket = this.#bucket()
    words.fill(0, at, at + ROW_WORDS)
    words[at + HASH] = this.#a
    words[at + HASH + 1] = this.#b
    words[at + BUCKET_NEXT] = this.#buckets[bucket]!
    this.#buckets[bucket] = row
    this.#append(row)
    head[SIZE]!++
    return row
  }
  /** The one whose second ends first; undefined: there is none. */
  get oldest(): number | undefined {
    const row = this.#head[OLDEST]!
    return row === 0 ? undefined : row
  }
  /** Of all it ends last from here on. */
  toNewest(row: number): void {
    this.#unlink(row)
    this.#append(row)
  }
  remove(row: number): void {
    const words = this.#words
    const at = ROW_WORDS * row
    this.#a = words[at + HASH]!
    this.#b = words[at + HASH + 1]!
    const bucket = this.#bucket()
    const next = words[at + BUCKET_NEXT]!
    let before = this.#buckets[bucket]!
    if (before === row) this.#buckets[bucket] = next
    else {
      while (words[ROW_WORDS * before + BUCKET_NEXT] !== row)
        before = words[ROW_WORDS * before + BUCKET_NEXT]!
      words[ROW_WORDS * before + BUCKET_NEXT] = next
    }
    this.#unlink(row)
    words[at + BUCKET_NEXT] = this.#head[FREE]!
    this.#head[FREE] = row
    this.#head[SIZE]!--
  }

  #append(row: number): void {
    const newest = this.#head[NEWEST]!
    this.#words[ROW_WORDS * row + BEFORE] = newest
    this.#words[ROW_WORDS * row + AFTER] = 0
    if (newest === 0) this.#head[OLDEST] = row
    else this.#words[ROW_WORDS * newest + AFTER] = row
    this.#head[NEWEST] = row
  }
  #unlink(row: number): void {
    const before = this.#words[ROW_WORDS * row + BEFORE]!
    const after = this.#words[ROW_WORDS * row + AFTER]!
    if (before === 0) this.#head[OLDEST] = after
    else this.#words[ROW_WORDS * before + AFTER] = after
    if (after === 0) this.#head[NEWEST] = before
    else this.#words[ROW_WORDS * after + BEFORE] = before
  }

  #bucket(): number {
    return this.#a & (this.#buckets.length - 1)
  }
  /**
   * Two lanes with different operations, from seeds that nobody knows: 100,000 keys have two of one hash once in 10⁹ runs (of 200 sets of
   * 20,000 keys each lane alone had 7 and 8 pairs, 9 are to be expected). 43 ns; xxh3 through its binding is 174 (2026-11).
   */
  #hash(key: string): void {
    let a = this.#head[SEEDS]! ^ key.length
    let b = this.#head[SEEDS + 1]! ^ key.length
    for (let at = 0; at < key.length; at++) {
      const code = key.charCodeAt(at)
      a = Math.imul(a ^ code, 0xcc9e2d51)
      a = (a << 15) | (a >>> 17)
      b = Math.imul((b + code) | 0, 0x1b873593)
      b ^= b >>> 15
    }
    a = Math.imul(a ^ (a >>> 16) ^ b, 0x85ebca6b)
    b = Math.imul(b ^ (b >>> 13) ^ a, 0xc2b2ae35)
    this.#a = a ^ (a >>> 13)
    this.#b = b ^ (b >>> 16)
  }
}

/**
 * After the exit of a thread: had it been ended while it worked on the rows, they may be half of one thing and half of another. All are
 * forgotten then, and every address begins a second. @returns whether it had
 */
export function clearEnded({ buffer }: LimiterMemory, thread: number): boolean {
  const words = new Int32Array(buffer)
  const isInside = Atomics.load(words, LOCK) >> 1 === thread
  if (isInside) {
    words.fill(0, SIZE, SEEDS)
    words.fill(0, HEAD_BYTES / 4)
    Atomics.store(words, LOCK, OPEN)
  }
  // Its end may also have come after it gave the lock back and before it told those who wait.
  Atomics.notify(words, LOCK)
  return isInside
}
