/** Where the transactions of folded blocks are, by hash, as a thread has read it: that stays until something is unfolded. */
import type { Bytes } from '../primitives/bytes.ts'
import type { TransactionPlace } from '../storage/types.ts'
import { untilUnfold } from './until-unfold.ts'

export interface FoldedPlaces {
  /** undefined: not kept, or of another count of unfolds than the view's. @param hash 32 bytes */
  get(hash: Bytes, unfolds: number): TransactionPlace | undefined
  /** What was read in a view of this count, which is still the newest. */
  keep(hash: Bytes, unfolds: number, place: TransactionPlace): void
}

/** A hash has one row, which is the last one's of those that share it: 128 KiB. A read of the store takes 10 µs (2026-11). */
const ROWS = 4_096
const HASH_BYTES = 32

export function keepFoldedPlaces(): FoldedPlaces {
  const hashes = new Uint8Array(HASH_BYTES * ROWS)
  const places: (TransactionPlace | undefined)[] = new Array(ROWS).fill(undefined)
  const kept = untilUnfold(() => places.fill(undefined))
  return {
    get(hash, unfolds) {
      const row = rowOf(hash)
      const place = kept.isOf(unfolds) ? places[row] : undefined
      if (place === undefined) return undefined
      const from = HASH_BYTES * row
      for (let at = 0; at < HASH_BYTES; at++) if (hashes[from + at] !== hash[at]) return undefined
      return place
    },
    keep(hash, unfolds, place) {
      if (!kept.begin(unfolds)) return
      const row = rowOf(hash)
      hashes.set(hash, HASH_BYTES * row)
      places[row] = place
    },
  }
}

const rowOf = (hash: Bytes): number => (hash[0]! | (hash[1]! << 8)) & (ROWS - 1)
