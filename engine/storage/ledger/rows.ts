/**
 * Rows of the ledger's writing side: their size, their counts, and how far promises are decided.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeNumber, encodeNumber } from '../blocks/block-codec.ts'
import type { Database, Entry, WriteBatch } from '../database/types.ts'
import type { PromiseOutcome } from '../ledger-types.ts'
import { DECIDED_KEY, sizeOf } from './codec.ts'
import { addCount, addTime } from './counts.ts'
import { Periods } from './periods.ts'

export class LedgerRows {
  readonly database: Database
  readonly periods: Periods
  /** All promises up to this height have an outcome. */
  decided: number
  /** Approximate size of all rows. */
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

  /** Adds outcomes to the minute of their decision; a negative number takes outcomes back. */
  count(
    outcomes: ReadonlyMap<PromiseOutcome, number>,
    { atMs, decidedAtMs }: { readonly atMs: number; readonly decidedAtMs: number },
  ): void {
    for (const [outcome, by] of outcomes) {
      if (outcome === 'open') continue
      const row = this.periods.at(decidedAtMs)
      addCount(row, outcome, by)
      if (outcome === 'kept') addTime(row, 'sealed', Math.max(0, decidedAtMs - atMs), by)
    }
  }

  /** Puts the counts and the decided height, which belong to every commit. */
  close(batch: WriteBatch): void {
    this.periods.put(batch)
    batch.put('ledger', DECIDED_KEY, encodeDecided(this.decided, this.bytes))
  }
}

/**
 * Lowers the decided height in the batch that drops canonical blocks above `lastRetained`. The next
 * start then decides again on promises above.
 */
export function forgetOutcomes(database: Database, batch: WriteBatch, lastRetained: number): void {
  const row = database.get('ledger', DECIDED_KEY)
  if (row !== undefined && decodeNumber(row) > lastRetained)
    batch.put('ledger', DECIDED_KEY, encodeDecided(lastRetained, decodeNumber(row, 8)))
}

function encodeDecided(number: number, bytes: number): Bytes {
  const value = new Uint8Array(16)
  value.set(encodeNumber(Math.max(0, number)))
  value.set(encodeNumber(bytes), 8)
  return value
}
