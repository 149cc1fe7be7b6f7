/** The rows that the keeper's side of the ledger writes: how many bytes they take, what they count, how far promises are decided. */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeNumber, encodeNumber } from '../blocks/block-codec.ts'
import type { Database, Entry, WriteBatch } from '../database/types.ts'
import type { Fate } from '../ledger-types.ts'
import { DECIDED_KEY, sizeOf } from './codec.ts'
import { addCount, addTime } from './counts.ts'
import { Periods } from './periods.ts'

export class LedgerRows {
  readonly database: Database
  readonly periods: Periods
  /** All promises up to this height have a fate. */
  decided: number
  /** Of all rows, about. */
  bytes: number

  constructor(database: Database) {
    this.database = database
    this.periods = new Periods(database)
    const row = database.get('ledger', DECIDED_KEY)
    this.decided = row === undefined ? -1 : decodeNumber(row)
    this.bytes = row === undefined ? 0 : decodeNumber(row, 8)
  }

  put(batch: WriteBatch, entry: Entry): void {
    batch.put('ledger', entry.key, entry.value)
    this.bytes += sizeOf(entry)
  }

  remove(batch: WriteBatch, entry: Entry): void {
    batch.delete('ledger', entry.key)
    this.bytes = Math.max(0, this.bytes - sizeOf(entry))
  }

  /** Where it was decided it is counted, and taken back. */
  count(
    fates: ReadonlyMap<Fate, number>,
    { atMs, decidedAtMs }: { readonly atMs: number; readonly decidedAtMs: number },
  ): void {
    for (const [fate, by] of fates) {
      if (fate === 'open') continue
      const row = this.periods.at(decidedAtMs)
      addCount(row, fate, by)
      if (fate === 'kept') addTime(row, 'sealed', Math.max(0, decidedAtMs - atMs), by)
    }
  }

  /** What belongs to whatever else was put. */
  close(batch: WriteBatch): void {
    this.periods.put(batch)
    batch.put('ledger', DECIDED_KEY, encodeDecided(this.decided, this.bytes))
  }
}

/** In the batch that drops canonical blocks above `kept`: a start decides anew on what was promised of their heights. */
export function forgetFates(database: Database, batch: WriteBatch, kept: number): void {
  const row = database.get('ledger', DECIDED_KEY)
  if (row !== undefined && decodeNumber(row) > kept)
    batch.put('ledger', DECIDED_KEY, encodeDecided(kept, decodeNumber(row, 8)))
}

function encodeDecided(number: number, bytes: number): Bytes {
  const value = new Uint8Array(16)
  value.set(encodeNumber(Math.max(0, number)))
  value.set(encodeNumber(bytes), 8)
  return value
}
