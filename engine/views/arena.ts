/**
 * The shared arena is one buffer; this file defines its layout and the hash of keys (ADR 3).
 * Offsets are in 32-bit words. The order is: control words and lease rows, 64 bytes each; the ring
 * of snapshots; the stamps; the read flags; the pages of the diff layers.
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { BlockId, PersistenceWords } from '../storage/types.ts'
import type { SharedViews } from './types.ts'

/**
 * Each control word has a cache line of 64 bytes, because a write slows readers of the same line.
 */
export const HEAD = 0
export const FLOOR = 16
export const PERSISTED_ID = 32
export const UNWINDS = 48
export const OLDEST = 64
export const SEED = 80
/**
 * Number of the newest snapshot that clients see. It differs from HEAD only with a flashblock lag
 * (ADR 55).
 */
export const VISIBLE = 96
const ROWS = 112
const LINE_WORDS = 16

export const SNAPSHOTS = 4096
export const SNAPSHOT_WORDS = 40
const STAMP_BITS = 20
/** Two keys can share a read flag; both are then retained longer than one alone. */
const READ_BITS = 20

export const DEFAULT_PAGE_BYTES = 64 * 1024
const MIN_PAGE_BYTES = 2048
/**
 * An entry of the cache beside the arena has turn, kind, length, origin, key, value and padding.
 */
export const CACHE_ENTRY_BYTES = 160
/** Number of entries where a key can be stored. */
export const CACHE_WAYS = 2
/** Number of entries when the caller gives none. */
const SMALL_CACHE_ENTRIES = 2 ** 12
/** Word offsets stay below 2^31, because V8 stores such numbers as small integers. */
const MAX_BYTES = 2 ** 33 - 2 ** 24

export type Arena = {
  readonly words: Int32Array<SharedArrayBuffer>
  readonly bytes: Uint8Array<SharedArrayBuffer>
  readonly seed: number
  readonly threads: number
  readonly pageWords: number
  readonly pageCount: number
  /** First word of the ring, the stamps, the read flags and the pages. */
  readonly snapshots: number
  readonly stamps: number
  readonly reads: number
  readonly pages: number
}

/**
 * Allocates the arena; only touched pages become resident.
 * @param options `bytes` is the memory of the diff layers (see `viewMemory`); the control words
 * come on top. A random `seed` gives each process different hashes.
 * @throws {RangeError} for sizes that do not work
 */
export function createViews(options: {
  readonly bytes: number
  readonly threads: number
  readonly seed: number
  readonly pageBytes?: number
  /** A power of two (see `cacheEntriesIn`). */
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

/** Returns the largest power of two of cache entries that fits into the bytes. */
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

export function openArena(shared: SharedViews): Arena {
  const words = new Int32Array(shared.buffer)
  const pages = pagesAt(shared.threads)
  const snapshots = ROWS + shared.threads * LINE_WORDS
  const pageWords = shared.pageBytes >> 2
  return {
    words,
    bytes: new Uint8Array(shared.buffer),
    seed: Atomics.load(words, SEED),
    threads: shared.threads,
    pageWords,
    pageCount: Math.floor((words.length - pages) / pageWords),
    snapshots,
    stamps: snapshots + SNAPSHOTS * SNAPSHOT_WORDS,
    reads: pages - 2 ** (READ_BITS - 2),
    pages,
  }
}

const pagesAt = (threads: number) =>
  ROWS + threads * LINE_WORDS + SNAPSHOTS * SNAPSHOT_WORDS + 2 ** STAMP_BITS + 2 ** (READ_BITS - 2)

/**
 * Returns the word of a thread's lease row: the oldest snapshot that the thread reads, or 0. The
 * row is negative until the thread has checked the floor.
 */
export const rowAt = (thread: number) => ROWS + thread * LINE_WORDS

export const snapshotAt = (arena: Arena, number: number) =>
  arena.snapshots + (number % SNAPSHOTS) * SNAPSHOT_WORDS

/** Clears the row of a thread after its exit. A running thread still reads. */
export function clearThread(shared: SharedViews, thread: number): void {
  if (!(thread >= 0 && thread < shared.threads))
    throw new RangeError(`views: thread ${thread} of ${shared.threads}`)
  Atomics.store(new Int32Array(shared.buffer), rowAt(thread), 0)
}

/** Returns access to the words that the persistence thread writes. */
export function persistenceWords(shared: SharedViews): PersistenceWords {
  const arena = openArena(shared)
  const { words } = arena
  const key = new Uint8Array(SLOT_KEY_BYTES)
  const keyWords = new Int32Array(key.buffer)
  const hashOf = (bytes: Bytes) => {
    key.set(bytes)
    return hashKey(arena.seed, keyWords, bytes.length >> 2)
  }
  return {
    persistedId: () => Atomics.load(words, PERSISTED_ID),
    setPersistedId: (id: BlockId) => {
      Atomics.store(words, PERSISTED_ID, id)
    },
    unwinds: () => Atomics.load(words, UNWINDS),
    raiseUnwinds: () => Atomics.add(words, UNWINDS, 1) + 1,
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

/**
 * Returns the byte that marks a row of flat state, or code, as read. A lazy directory drops rows
 * that nobody reads.
 */
export const readAt = (arena: Arena, hash: number) => arena.reads * 4 + (hash >>> (32 - READ_BITS))

/**
 * Returns the word of a key's stamp. Stamps use high bits of the hash, because the index of a small
 * diff layer uses the low bits.
 */
export const stampAt = (arena: Arena, hash: number) => arena.stamps + (hash >>> (32 - STAMP_BITS))

/**
 * Returns a 32-bit hash of a key's words; 13 words take about 15 ns.
 * Two accumulators with different operations run side by side. Keys that collide in one do not
 * collide in the other, whatever the seed. Lookups compare full keys as well.
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
