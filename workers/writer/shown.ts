/** What can be read after an event, as a record has it. */
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { WriterEffect } from '../../engine/sources/writer/types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Shown } from '../record/lines.ts'

export const isPublished = (effects: readonly WriterEffect[]): boolean =>
  effects.some(({ type }) => type === 'published')

/** undefined: nothing was published, or it is being taken back already. */
export function shownAfter(
  reader: ChainReader,
  effects: readonly WriterEffect[],
): Shown | undefined {
  return isPublished(effects) ? shownNow(reader) : undefined
}

/** undefined: it is being taken back. */
export function shownNow(reader: ChainReader): Shown | undefined {
  try {
    return readNewest(reader, 'flashblocks', ({ record, canonical, pending }) => ({
      record,
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
