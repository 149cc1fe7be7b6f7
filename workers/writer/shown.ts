/** What can be read after an event, as a record has it. */
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { WriterEffect } from '../../engine/sources/writer/types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Shown } from '../record/lines.ts'

/** undefined: nothing was published, or it is being taken back already. */
export function shownAfter(
  reader: ChainReader,
  effects: readonly WriterEffect[],
): Shown | undefined {
  if (!effects.some(({ type }) => type === 'published')) return undefined
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
