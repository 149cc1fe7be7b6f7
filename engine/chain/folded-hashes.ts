/** Hashes of folded blocks by height, as a thread has read them: they stay until something is unfolded. */
import type { Bytes } from '../primitives/bytes.ts'
import { untilUnfold } from './until-unfold.ts'

export interface FoldedHashes {
  /** undefined: not kept, or of another count of unfolds than the view's. */
  get(height: number, unfolds: number): Bytes | undefined
  /** What was read in a view of this count, which is still the newest. */
  keep(height: number, unfolds: number, hash: Bytes): void
}

/** A height has one place. */
const PLACES = 8_192

export function keepFoldedHashes(): FoldedHashes {
  const heights = new Float64Array(PLACES).fill(-1)
  const hashes: Bytes[] = []
  const kept = untilUnfold(() => heights.fill(-1))
  return {
    get(height, unfolds) {
      const place = height % PLACES
      return kept.isOf(unfolds) && heights[place] === height ? hashes[place] : undefined
    },
    keep(height, unfolds, hash) {
      if (!kept.begin(unfolds)) return
      heights[height % PLACES] = height
      hashes[height % PLACES] = hash
    },
  }
}
