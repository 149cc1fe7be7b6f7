/**
 * Rows of keys in memory that several threads share, found by the hash of a key. A thread works on them alone, between `lock` and
 * `unlock`. What else a row has are words of who has the rows, from `FIRST_WORD` on.
 */
import { randomFillSync } from 'node:crypto'

/** Names the thread of a front in locks: 1 is the main one, whose number among fronts is 0. */
export const threadOf = (cell: number): number => cell + 1

/** What the rows are, in numbers. */
export type RowShape = {
  /** Rows that keys may have: 1, 2, … Row 0 is nobody's. */
  readonly most: number
  /** Words of a row, those of the key included. */
  readonly rowWords: number
}

/** Words of the head. */
const [LOCK, SIZE, FREE, FRESH] = [0, 1, 2, 3] as const
/** Two of who has the rows. */
export const OWN_WORDS = 4
const SEEDS = 6
export const HEAD_BYTES = 64
/** Of the lock: nobody has it; else twice the thread that has it, and 1 where another may wait for it. One word, so that no end comes between. */
const OPEN = 0
const AWAITED = 1
/** Words of a row. */
const [HASH, BUCKET_NEXT] = [0, 2] as const
export const FIRST_WORD = 3

const bucketsFor = (most: number) => 2 ** Math.ceil(Math.log2(most + 1))

/** Of all rows and what finds them, beside the head. */
export const bytesOfRows = ({ most, rowWords }: RowShape): number =>
  4 * (rowWords * (most + 1) + bucketsFor(most))

/** Keys are compared by their hashes: nobody outside is to know which have the same. */
export const seed = (words: Int32Array<SharedArrayBuffer>): void => void randomFillSync(words)
/** Those of the head. */
export const seedsOf = (buffer: SharedArrayBuffer): Int32Array<SharedArrayBuffer> =>
  new Int32Array(buffer, 4 * SEEDS, 2)

/** The rows as seen by this thread. */
export class SharedRows {
  protected readonly head: Int32Array
  protected readonly words: Int32Array
  protected readonly rowWords: number
  readonly #buckets: Int32Array
  readonly #most: number
  readonly #lockWord: number
  readonly #seeds: Int32Array
  /** Of the key that was looked for last. */
  #a = 0
  #b = 0

  /**
   * @param thread names this one; from 1
   * @param rowsAt where the rows begin, in bytes
   * @param seeds two of them; keys under others are other keys
   */
  constructor(
    buffer: SharedArrayBuffer,
    { most, rowWords }: RowShape,
    {
      thread,
      rowsAt,
      seeds = seedsOf(buffer),
    }: { readonly thread: number; readonly rowsAt: number; readonly seeds?: Int32Array },
  ) {
    const length = rowWords * (most + 1)
    this.head = new Int32Array(buffer, 0, HEAD_BYTES / 4)
    this.words = new Int32Array(buffer, rowsAt, length)
    this.#buckets = new Int32Array(buffer, rowsAt + 4 * length, bucketsFor(most))
    this.#most = most
    this.rowWords = rowWords
    this.#lockWord = 2 * thread
    this.#seeds = seeds
  }

  /**
   * Sleeps until the lock is free. Another thread has it for less than a microsecond, unless its core was taken from it. The lock of a
   * thread that has ended is freed by the main thread (`openLockOf`), so the main thread calls `tryLock` alone.
   */
  lock(): void {
    const { head } = this
    const own = this.#lockWord
    let seen = Atomics.compareExchange(head, LOCK, OPEN, own)
    while (seen !== OPEN) {
      const awaited = seen | AWAITED
      if (seen === awaited || Atomics.compareExchange(head, LOCK, seen, awaited) === seen)
        Atomics.wait(head, LOCK, awaited)
      // Others may wait as well.
      seen = Atomics.compareExchange(head, LOCK, OPEN, own | AWAITED)
    }
  }
  /** Takes the lock if it is free, and never waits. */
  tryLock(): boolean {
    return Atomics.compareExchange(this.head, LOCK, OPEN, this.#lockWord) === OPEN
  }
  unlock(): void {
    if ((Atomics.exchange(this.head, LOCK, OPEN) & AWAITED) !== 0)
      Atomics.notify(this.head, LOCK, 1)
  }

  get size(): number {
    return this.head[SIZE]!
  }
  get isFull(): boolean {
    return this.size >= this.#most
  }

  /** undefined: it has none. */
  find(key: string): number | undefined {
    this.#hash(key)
    const { words } = this
    const { rowWords } = this
    let row = this.#buckets[this.#bucket()]!
    while (row !== 0) {
      const at = rowWords * row
      if (words[at + HASH] === this.#a && words[at + HASH + 1] === this.#b) return row
      row = words[at + BUCKET_NEXT]!
    }
    return undefined
  }

  /** A row for a key that has none; its words are 0. There must be room. */
  add(key: string): number {
    this.#hash(key)
    const { head, words } = this
    const { rowWords } = this
    const free = head[FREE]!
    const row = free === 0 ? ++head[FRESH]! : free
    const at = rowWords * row
    if (free !== 0) head[FREE] = words[at + BUCKET_NEXT]!
    words.fill(0, at, at + rowWords)
    words[at + HASH] = this.#a
    words[at + HASH + 1] = this.#b
    this.#link(row)
    return row
  }
  #link(row: number): void {
    const bucket = this.#bucket()
    this.words[this.rowWords * row + BUCKET_NEXT] = this.#buckets[bucket]!
    this.#buckets[bucket] = row
    this.head[SIZE]!++
  }
  remove(row: number): void {
    const { words } = this
    const { rowWords } = this
    const at = rowWords * row
    this.#recall(row)
    const bucket = this.#bucket()
    const next = words[at + BUCKET_NEXT]!
    let before = this.#buckets[bucket]!
    if (before === row) this.#buckets[bucket] = next
    else {
      while (words[rowWords * before + BUCKET_NEXT] !== row)
        before = words[rowWords * before + BUCKET_NEXT]!
      words[rowWords * before + BUCKET_NEXT] = next
    }
    this.#free(row)
    this.head[SIZE]!--
  }
  #free(row: number): void {
    this.words[this.rowWords * row + BUCKET_NEXT] = this.head[FREE]!
    this.head[FREE] = row
  }

  /** Finds all rows of the others anew, whatever of it was half done; those that are not in use are free. */
  protected rebuild(isInUse: (row: number) => boolean): void {
    const { head } = this
    this.#buckets.fill(0)
    head[SIZE] = 0
    head[FREE] = 0
    for (let row = head[FRESH]!; row > 0; row--) {
      if (!isInUse(row)) this.#free(row)
      else {
        this.#recall(row)
        this.#link(row)
      }
    }
  }

  #bucket(): number {
    return this.#a & (this.#buckets.length - 1)
  }
  /** The hash of the key that has the row. */
  #recall(row: number): void {
    const at = this.rowWords * row
    this.#a = this.words[at + HASH]!
    this.#b = this.words[at + HASH + 1]!
  }
  /**
   * Two lanes with different operations, from seeds that nobody knows: 100,000 keys have two of one hash once in 10⁹ runs (of 200 sets of
   * 20,000 keys each lane alone had 7 and 8 pairs, 9 are to be expected). 43 ns; xxh3 through its binding is 174 (2026-11).
   */
  #hash(key: string): void {
    let a = this.#seeds[0]! ^ key.length
    let b = this.#seeds[1]! ^ key.length
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
 * After the exit of a thread. Had it been ended while it worked on the rows, they may be half of one thing and half of another.
 * @param mend is called then, before others go on. @returns whether it had
 */
export function openLockOf(buffer: SharedArrayBuffer, thread: number, mend: () => void): boolean {
  const words = new Int32Array(buffer)
  const isInside = Atomics.load(words, LOCK) >> 1 === thread
  if (isInside) {
    mend()
    Atomics.store(words, LOCK, OPEN)
  }
  // Its end may also have come after it gave the lock back and before it told those who wait.
  Atomics.notify(words, LOCK)
  return isInside
}

/** Forgets every row, and whatever stands in the memory but its seeds of the head. */
export function forgetRows(buffer: SharedArrayBuffer): void {
  const words = new Int32Array(buffer)
  words.fill(0, SIZE, SEEDS)
  words.fill(0, HEAD_BYTES / 4)
}
