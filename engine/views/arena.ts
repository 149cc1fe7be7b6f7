/**
 * The shared arena: one buffer, where each word lies in it, and the hash of keys (ADR 3). Offsets are in 32-bit words.
 * Order in the buffer: control words and lease rows, 64 bytes each; the ring of records; the stamps; what was read; the pages of the tables.
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { BlockId, KeeperWords } from '../storage/types.ts'
import type { SharedViews } from './types.ts'

/** Control words, each alone in its 64 bytes: threads that write one do not slow readers of another. */
export const HEAD = 0
export const FLOOR = 16
export const FOLD = 32
export const UNFOLDS = 48
export const OLDEST = 64
export const SEED = 80
/** The newest record that clients are shown; HEAD but for a node that stays behind (ADR 55). */
export const SHOWN = 96
const ROWS = 112
const LINE_WORDS = 16

export const RECORDS = 4096
export const RECORD_WORDS = 40
const STAMP_BITS = 20
/** A byte for each; two keys with one only stay longer than they would alone. */
const READ_BITS = 20

export const DEFAULT_PAGE_BYTES = 64 * 1024
const MIN_PAGE_BYTES = 2048
/** Of the cache beside the arena: turn, kind, length, where it was read, key, value, and what fills it up. */
export const CACHE_ENTRY_BYTES = 160
/** Entries in which a key may lie. */
export const CACHE_WAYS = 2
/** Where nobody says how many. */
const SMALL_CACHE_ENTRIES = 2 ** 12
/** Word offsets stay below 2^31, so that they are small integers everywhere. */
const MAX_BYTES = 2 ** 33 - 2 ** 24

export type Arena = {
  readonly words: Int32Array<SharedArrayBuffer>
  readonly bytes: Uint8Array<SharedArrayBuffer>
  readonly seed: number
  readonly threads: number
  readonly pageWords: number
  readonly pageCount: number
  /** First word of the ring, the stamps, the reads and the pages. */
  readonly records: number
  readonly stamps: number
  readonly reads: number
  readonly pages: number
}

/**
 * Allocates the arena once; only pages that were touched become resident. `bytes`: memory of the tables (viewMemory computes it), the
 * control words come on top. `seed`: random, the same key then hashes differently in every process.
 * @throws {RangeError} on sizes that cannot work.
 */
export function createViews(options: {
  readonly bytes: number
  readonly threads: number
  readonly seed: number
  readonly pageBytes?: number
  /** A power of two (cacheEntriesIn). */
  readonly cacheEntries?: number
}): SharedViews {
  const { bytes, threads, seed, pageBytes = DEFAULT_PAGE_BYTES, cacheEntries } = options
  if (!Number.isInteger(threads) || threads < 1)
    throw new RangeError(`views: ${threads} threads, expected at least 1`)
  if (pageBytes < MIN_PAGE_BYTES || (pageBytes & (pageBytes - 1)) !== 0)
    throw new RangeError(
      `views: pages of ${pageBytes} bytes, expected a power of two from ${MIN_PAGE_BYTES}`,
    )
  const pageCount = Math.floor(bytes / pageBytes)
  if (pageCount < 1)
    throw new RangeError(`views: ${bytes} bytes hold no page of ${pageBytes} bytes`)
  const size = pagesAt(threads) * 4 + pageCount * pageBytes
  if (size > MAX_BYTES) throw new RangeError(`views: ${size} bytes, at most ${MAX_BYTES}`)
  const buffer = new SharedArrayBuffer(size)
  Atomics.store(new Int32Array(buffer), SEED, seed | 0)
  return { buffer, cache: createCacheMemory(cacheEntries), threads, pageBytes }
}

/** The most entries that take no more than so many bytes. */
export const cacheEntriesIn = (bytes: number): number =>
  2 ** Math.floor(Math.log2(bytes / CACHE_ENTRY_BYTES))

/** @throws {RangeError} */
function createCacheMemory(entries = SMALL_CACHE_ENTRIES): SharedArrayBuffer {
  if (entries < CACHE_WAYS || (entries & (entries - 1)) !== 0)
    throw new RangeError(
      `views: a cache of ${entries} entries, expected a power of two from ${CACHE_WAYS}`,
    )
  return new SharedArrayBuffer(entries * CACHE_ENTRY_BYTES)
}

/** The arena as seen by this thread. */
export function openArena(shared: SharedViews): Arena {
  const words = new Int32Array(shared.buffer)
  const pages = pagesAt(shared.threads)
  const records = ROWS + shared.threads * LINE_WORDS
  const pageWords = shared.pageBytes >> 2
  return {
    words,
    bytes: new Uint8Array(shared.buffer),
    seed: Atomics.load(words, SEED),
    threads: shared.threads,
    pageWords,
    pageCount: Math.floor((words.length - pages) / pageWords),
    records,
    stamps: records + RECORDS * RECORD_WORDS,
    reads: pages - 2 ** (READ_BITS - 2),
    pages,
  }
}

const pagesAt = (threads: number) =>
  ROWS + threads * LINE_WORDS + RECORDS * RECORD_WORDS + 2 ** STAMP_BITS + 2 ** (READ_BITS - 2)

/** Word of a thread's lease row: the oldest record it reads, or 0; negative while the thread has not looked at the floor yet. */
export const rowAt = (thread: number) => ROWS + thread * LINE_WORDS

/** First word of a record in the ring. */
export const recordAt = (arena: Arena, number: number) =>
  arena.records + (number % RECORDS) * RECORD_WORDS

/** Clears the row of a thread that has ended: only after its exit, until then it still reads. */
export function clearThread(shared: SharedViews, thread: number): void {
  if (!(thread >= 0 && thread < shared.threads))
    throw new RangeError(`views: thread ${thread} of ${shared.threads}`)
  Atomics.store(new Int32Array(shared.buffer), rowAt(thread), 0)
}

/** The words that the keeper writes. */
export function keeperWords(shared: SharedViews): KeeperWords {
  const arena = openArena(shared)
  const { words } = arena
  const key = new Uint8Array(SLOT_KEY_BYTES)
  const keyWords = new Int32Array(key.buffer)
  const hashOf = (bytes: Bytes) => {
    key.set(bytes)
    return hashKey(arena.seed, keyWords, bytes.length >> 2)
  }
  return {
    fold: () => Atomics.load(words, FOLD),
    setFold: (id: BlockId) => {
      Atomics.store(words, FOLD, id)
    },
    unfolds: () => Atomics.load(words, UNFOLDS),
    raiseUnfolds: () => Atomics.add(words, UNFOLDS, 1) + 1,
    setOldest: (number) => {
      Atomics.store(words, OLDEST, number)
    },
    stamp: (bytes: Bytes, height) => {
      if (bytes.length !== ADDRESS_BYTES && bytes.length !== SLOT_KEY_BYTES)
        throw new RangeError(`stamp: a key of ${bytes.length} bytes, expected 20 or 52`)
      Atomics.store(words, stampAt(arena, hashOf(bytes)), height)
    },
    takeRead(bytes) {
      const at = readAt(arena, hashOf(bytes))
      if (arena.bytes[at] === 0) return false
      arena.bytes[at] = 0
      return true
    },
  }
}
const ADDRESS_BYTES = 20
const SLOT_KEY_BYTES = 52

/** Byte that says that a row of flat state, or code, was read: of a lazy directory, which does not keep for ever what nobody reads. */
export const readAt = (arena: Arena, hash: number) => arena.reads * 4 + (hash >>> (32 - READ_BITS))

/** Word of the stamp of a key. Other bits of the hash than those that find index words in small tables. */
export const stampAt = (arena: Arena, hash: number) => arena.stamps + (hash >>> (32 - STAMP_BITS))

/**
 * 32-bit hash of a key's words. Two lanes with different operations: colliding keys of one lane do not collide in the other, whatever
 * the seed; full keys are compared anyway. 13 words take about 15 ns.
 */
export function hashKey(seed: number, key: Int32Array, count: number): number {
  let a = seed ^ count
  let b = Math.imul(seed, 0x27d4eb2f) + count
  for (let i = 0; i < count; i++) {
    const word = key[i]!
    a = Math.imul(a ^ word, 0xcc9e2d51)
    a = (a << 15) | (a >>> 17)
    b = Math.imul((b + word) | 0, 0x1b873593)
    b ^= b >>> 15
  }
  a ^= b
  a = Math.imul(a ^ (a >>> 16), 0x85ebca6b)
  a = Math.imul(a ^ (a >>> 13), 0xc2b2ae35)
  return a ^ (a >>> 16)
}
