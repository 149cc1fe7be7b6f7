/** Heads that are visible after an event, for recordings. */
import type { ChainReader } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { WriterEffect } from '../../engine/sources/writer/types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { VisibleHeads } from '../record/lines.ts'

export const isPublished = (effects: readonly WriterEffect[]): boolean =>
  effects.some(({ type }) => type === 'published')

/** Returns undefined if nothing was published, or if it is already being unwound. */
export function visibleAfter(
  reader: ChainReader,
  effects: readonly WriterEffect[],
): VisibleHeads | undefined {
  return isPublished(effects) ? visibleNow(reader) : undefined
}

/** Returns undefined while blocks are unwound. */
export function visibleNow(reader: ChainReader): VisibleHeads | undefined {
  try {
    return readNewest(reader, 'flashblocks', ({ snapshot, canonical, pending }) => ({
      record: snapshot,
      canonical: Number(canonical.number),
      pending: Number(pending.number),
      index: pending.index,
      hash: pending.hash.slice(),
      canonicalHash: canonical.hash.slice(),
    }))
  } catch (error) {
    if (error instanceof ViewError) return undefined
    throw error
  }
}
