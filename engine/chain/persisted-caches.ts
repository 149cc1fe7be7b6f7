/**
 * A thread's caches of persisted blocks until an unwind: hashes by height, and transaction
 * locations by hash. Snapshots count the unwinds.
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { TransactionLocation } from '../storage/types.ts'

/** Validity of a cache of persisted blocks, which ends with an unwind. */
interface UntilUnwind {
  /** Returns whether the cache belongs to views with this count of unwinds. */
  isOf(unwinds: number): boolean
  /**
   * Called before caching a value of a view with this count. Returns false when the cache belongs
   * to a later count.
   */
  start(unwinds: number): boolean
}

/** @param forget clears the cache, whose values belong to an earlier count */
function untilUnwind(forget: () => void): UntilUnwind {
  let counted = 0
  return {
    isOf: (unwinds) => unwinds === counted,
    start(unwinds) {
      if (unwinds > counted) forget()
      counted = Math.max(counted, unwinds)
      return unwinds === counted
    },
  }
}

/** Hashes of persisted blocks by height. */
export interface PersistedHashes {
  /**
   * Returns the hash; undefined when it is not cached, or when the view has another count of
   * unwinds.
   */
  get(height: number, unwinds: number): Bytes | undefined
  /**
   * Caches a hash that was read in a view with this count of unwinds, which is still the newest.
   */
  set(height: number, unwinds: number, hash: Bytes): void
}

/** Each height has one entry, at the height modulo this number. */
const ENTRIES = 8_192

export function createPersistedHashes(): PersistedHashes {
  const heights = new Float64Array(ENTRIES).fill(-1)
  const hashes: Bytes[] = []
  const cached = untilUnwind(() => heights.fill(-1))
  return {
    get(height, unwinds) {
      const index = height % ENTRIES
      return cached.isOf(unwinds) && heights[index] === height ? hashes[index] : undefined
    },
    set(height, unwinds, hash) {
      if (!cached.start(unwinds)) return
      heights[height % ENTRIES] = height
      hashes[height % ENTRIES] = hash
    },
  }
}

/** Locations of persisted transactions by hash. */
export interface PersistedLocations {
  /**
   * Returns the location; undefined when it is not cached, or when the view has another count of
   * unwinds.
   * @param hash 32 bytes
   */
  get(hash: Bytes, unwinds: number): TransactionLocation | undefined
  /**
   * Caches a location that was read in a view with this count of unwinds, which is still the
   * newest.
   */
  set(hash: Bytes, unwinds: number, location: TransactionLocation): void
}

/**
 * Hashes that share a row replace each other; all rows take 128 KiB. A read of the store takes 10
 * µs (November 2026).
 */
const ROWS = 4_096
const HASH_BYTES = 32

export function createPersistedLocations(): PersistedLocations {
  const hashes = new Uint8Array(HASH_BYTES * ROWS)
  const locations: (TransactionLocation | undefined)[] = new Array(ROWS).fill(undefined)
  const cached = untilUnwind(() => locations.fill(undefined))
  return {
    get(hash, unwinds) {
      const row = rowOf(hash)
      const location = cached.isOf(unwinds) ? locations[row] : undefined
      if (location === undefined) return undefined
      const from = HASH_BYTES * row
      for (let at = 0; at < HASH_BYTES; at++) if (hashes[from + at] !== hash[at]) return undefined
      return location
    },
    set(hash, unwinds, location) {
      if (!cached.start(unwinds)) return
      const row = rowOf(hash)
      hashes.set(hash, HASH_BYTES * row)
      locations[row] = location
    },
  }
}

const rowOf = (hash: Bytes): number => (hash[0]! | (hash[1]! << 8)) & (ROWS - 1)
