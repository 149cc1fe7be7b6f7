/**
 * Rows with a key of a few words, in memory that one thread writes and any number of threads read.
 * Readers take no lock: a read is repeated when the writer has changed the stripe meanwhile.
 * Every access is atomic, because only atomic accesses have one order for all threads. A plain
 * store could become visible before the stripe's word.
 */
import { randomFillSync } from 'node:crypto'
import type { Bytes } from '../../primitives/bytes.ts'

/** Plain data that crosses threads. */
export type RowsMemory = RowsShape & { readonly buffer: SharedArrayBuffer }
type RowsShape = {
  readonly max: number
  /** A power of two; a key is searched among the rows of one bucket. */
  readonly buckets: number
  readonly keyWords: number
  readonly dataWords: number
}

/** Words at the start: first free row, number of rows ever used, then the seeds of the hash. */
const [FREE, FRESH] = [0, 1] as const
const SEEDS = 2
const HEAD_WORDS = 16
/**
 * A stripe is one word, which is odd while the writer changes one of its buckets. More stripes mean
 * fewer repeated reads.
 */
const STRIPES = 1_024
const BUCKETS_AT = HEAD_WORDS + STRIPES
/**
 * Number of reads of an odd word before a reader sleeps, because the writer may have lost its core.
 */
const SPINS = 1_000
const SLEEP_MS = 1
/**
 * Number of links followed between two checks of the stripe. Rows that are reused meanwhile could
 * form a circle.
 */
const STEPS = 32

export function createRows(shape: RowsShape): RowsMemory {
  const { max, buckets, keyWords, dataWords } = shape
  // Row 0 means none.
  const words = BUCKETS_AT + buckets + (1 + keyWords + dataWords) * (max + 1)
  const buffer = new SharedArrayBuffer(4 * words)
  // The seed is random, so that nobody outside can choose keys that share a bucket.
  randomFillSync(new Int32Array(buffer, 4 * SEEDS, HEAD_WORDS - SEEDS))
  return { ...shape, buffer }
}

export class Rows {
  readonly #words: Int32Array
  readonly #max: number
  readonly #keyWords: number
  readonly #width: number
  readonly #rowsAt: number
  readonly #mask: number
  /** The current key, with its bucket and stripe. */
  readonly #key: Int32Array
  #bucketAt = 0
  #stripe = 0

  constructor({ buffer, max, buckets, keyWords, dataWords }: RowsMemory) {
    this.#words = new Int32Array(buffer)
    this.#max = max
    this.#keyWords = keyWords
    this.#width = 1 + keyWords + dataWords
    this.#rowsAt = BUCKETS_AT + buckets
    this.#mask = buckets - 1
    this.#key = new Int32Array(keyWords)
  }

  /** Sets the key for the calls below: the first bytes of `bytes`. */
  aim(bytes: Bytes): void {
    let mixed = 0
    for (let word = 0; word < this.#keyWords; word++) {
      const at = 4 * word
      const value =
        bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
      this.#key[word] = value
      mixed = Math.imul(mixed ^ value ^ this.#words[SEEDS + 2 * word]!, 0xcc9e2d51)
      mixed = (mixed ^ (mixed >>> 15)) + this.#words[SEEDS + 2 * word + 1]!
    }
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
    const bucket = (mixed ^ (mixed >>> 13)) & this.#mask
    this.#bucketAt = BUCKETS_AT + bucket
    this.#stripe = HEAD_WORDS + (bucket & (STRIPES - 1))
  }

  /**
   * Starts a read; the result goes to `isSame` after the read. Waits while the writer changes the
   * stripe.
   */
  start(): number {
    for (let spins = 0; ; spins++) {
      const seen = Atomics.load(this.#words, this.#stripe)
      if ((seen & 1) === 0) return seen
      if (spins >= SPINS) Atomics.wait(this.#words, this.#stripe, seen, SLEEP_MS)
    }
  }
  /** Returns whether everything read since `start` belongs to one moment. */
  isSame(seen: number): boolean {
    return Atomics.load(this.#words, this.#stripe) === seen
  }
  /** Returns the row with the key; 0: none, or the stripe has changed. */
  find(seen: number): number {
    const words = this.#words
    let row = Atomics.load(words, this.#bucketAt)
    for (let steps = 1; row !== 0; steps++) {
      const at = this.#rowsAt + this.#width * row
      if (this.#isKey(at + 1)) return row
      if (steps % STEPS === 0 && !this.isSame(seen)) return 0
      row = Atomics.load(words, at)
    }
    return 0
  }
  #isKey(at: number): boolean {
    for (let word = 0; word < this.#keyWords; word++)
      if (Atomics.load(this.#words, at + word) !== this.#key[word]) return false
    return true
  }
  data(row: number, which: number): number {
    return Atomics.load(this.#words, this.#dataAt(row, which))
  }
  #dataAt(row: number, which: number): number {
    return this.#rowsAt + this.#width * row + 1 + this.#keyWords + which
  }

  /**
   * Starts a change. From here on, methods are for the writer; reads of this stripe are repeated
   * until `shut`.
   */
  open(): number {
    return Atomics.add(this.#words, this.#stripe, 1) + 1
  }
  shut(): void {
    Atomics.add(this.#words, this.#stripe, 1)
  }
  setData(row: number, which: number, value: number): void {
    Atomics.store(this.#words, this.#dataAt(row, which), value)
  }
  /** Adds a row with data 0 for a key that has none; 0: the memory is full. */
  add(): number {
    const words = this.#words
    const free = words[FREE]!
    if (free === 0 && words[FRESH]! >= this.#max) return 0
    const row = free === 0 ? ++words[FRESH]! : free
    const at = this.#rowsAt + this.#width * row
    if (free !== 0) words[FREE] = words[at]!
    for (let word = 0; word < this.#keyWords; word++)
      Atomics.store(words, at + 1 + word, this.#key[word]!)
    for (let word = 1 + this.#keyWords; word < this.#width; word++)
      Atomics.store(words, at + word, 0)
    Atomics.store(words, at, words[this.#bucketAt]!)
    Atomics.store(words, this.#bucketAt, row)
    return row
  }
  remove(row: number): void {
    const words = this.#words
    const at = this.#rowsAt + this.#width * row
    let link = this.#bucketAt
    while (words[link] !== row) link = this.#rowsAt + this.#width * words[link]!
    Atomics.store(words, link, words[at]!)
    Atomics.store(words, at, words[FREE]!)
    words[FREE] = row
  }
}
