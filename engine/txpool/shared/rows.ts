/**
 * Rows found by a key of a few words, in memory that one thread writes and any number read. A reader takes no lock: it looks, and looks
 * again where the writer was at work on the same stripe meanwhile. Every word is an Atomics one, because only those have one order for
 * all threads: a plain store may be seen before the word that says that it is being made.
 */
import { randomFillSync } from 'node:crypto'
import type { Bytes } from '../../primitives/bytes.ts'

/** Plain data: crosses a thread. */
export type RowsMemory = RowsShape & { readonly buffer: SharedArrayBuffer }
type RowsShape = {
  readonly most: number
  /** A power of two: a key is looked for among the rows of one. */
  readonly buckets: number
  readonly keyWords: number
  readonly dataWords: number
}

/** Words at the beginning: the first of the rows that were given back, and how many were ever used; then what keys are mixed with. */
const [FREE, FRESH] = [0, 1] as const
const SEEDS = 2
const HEAD_WORDS = 16
/** Each is a word, odd while the writer is at work on one of its buckets: a reader looks again for one write of so many. */
const STRIPES = 1_024
const BUCKETS_AT = HEAD_WORDS + STRIPES
/** Looks in a row at a word that is odd, before a reader sleeps: the writer's core was taken from it. */
const SPINS = 1_000
const SLEEP_MS = 1
/** Steps along a chain between two looks at the stripe: rows that change hands meanwhile may lead round in a circle. */
const STEPS = 32

export function createRows(shape: RowsShape): RowsMemory {
  const { most, buckets, keyWords, dataWords } = shape
  // Row 0 is none.
  const words = BUCKETS_AT + buckets + (1 + keyWords + dataWords) * (most + 1)
  const buffer = new SharedArrayBuffer(4 * words)
  // Nobody outside is to know which keys share a bucket.
  randomFillSync(new Int32Array(buffer, 4 * SEEDS, HEAD_WORDS - SEEDS))
  return { ...shape, buffer }
}

/** The rows as seen by one thread. */
export class Rows {
  readonly #words: Int32Array
  readonly #most: number
  readonly #keyWords: number
  readonly #width: number
  readonly #rowsAt: number
  readonly #mask: number
  /** The key that is looked for, and where. */
  readonly #key: Int32Array
  #bucketAt = 0
  #stripe = 0

  constructor({ buffer, most, buckets, keyWords, dataWords }: RowsMemory) {
    this.#words = new Int32Array(buffer)
    this.#most = most
    this.#keyWords = keyWords
    this.#width = 1 + keyWords + dataWords
    this.#rowsAt = BUCKETS_AT + buckets
    this.#mask = buckets - 1
    this.#key = new Int32Array(keyWords)
  }

  /** What the calls below are about: the first bytes of `bytes`. */
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

  /** For a reader, before its first look: what `isSame` is asked with after its last. Waits for a writer that is at work on the stripe. */
  begin(): number {
    for (let spins = 0; ; spins++) {
      const seen = Atomics.load(this.#words, this.#stripe)
      if ((seen & 1) === 0) return seen
      if (spins >= SPINS) Atomics.wait(this.#words, this.#stripe, seen, SLEEP_MS)
    }
  }
  /** Whether all that was read since is of one moment. */
  isSame(seen: number): boolean {
    return Atomics.load(this.#words, this.#stripe) === seen
  }
  /** Number of the row with the key; 0: there is none, or `isSame` says no. */
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

  /** The writer's, as all below: nobody takes a look for an answer from here on until `shut`. */
  open(): number {
    return Atomics.add(this.#words, this.#stripe, 1) + 1
  }
  shut(): void {
    Atomics.add(this.#words, this.#stripe, 1)
  }
  setData(row: number, which: number, value: number): void {
    Atomics.store(this.#words, this.#dataAt(row, which), value)
  }
  /** A row for the key, which has none; its data are 0. 0: there is no room. */
  add(): number {
    const words = this.#words
    const free = words[FREE]!
    if (free === 0 && words[FRESH]! >= this.#most) return 0
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
  /** The row of the key. */
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
