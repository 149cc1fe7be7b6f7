/** Counts of the ledger: by the minute for three hours, by the hour for a month, and in total. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { periodKey, rangeOf, TOTAL_KEY } from './codec.ts'
import { addRow, type CountRow, decodeRow, encodeRow, newRow } from './counts.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
/** Minutes that are retained. A reader may read two hours. */
export const MINUTES = 180
/** Hours that are retained. A reader adds up all of them in some milliseconds. */
const HOURS = 31 * 24
/** Rows deleted in one commit. */
const PRUNED_AT_ONCE = 4

export class Periods {
  readonly #database: Database
  /** Counts that are not in a batch yet, by minute. */
  readonly #changes = new Map<number, CountRow>()
  readonly #total: CountRow

  constructor(database: Database) {
    this.#database = database
    this.#total = decodeRow(database.get('ledger', TOTAL_KEY))
  }

  /** Row of a minute, to which the caller adds. */
  at(ms: number): CountRow {
    const minute = Math.floor(ms / MINUTE_MS)
    const row = this.#changes.get(minute) ?? newRow()
    this.#changes.set(minute, row)
    return row
  }

  /** Total, with counts that are not in a batch yet. */
  total(): CountRow {
    const row = this.#total.slice()
    for (const change of this.#changes.values()) addRow(row, change)
    return row
  }

  put(batch: WriteBatch): void {
    const rows = new Map<string, { readonly key: Bytes; readonly row: CountRow }>()
    for (const [minute, change] of this.#changes) {
      const hour = Math.floor((minute * MINUTE_MS) / HOUR_MS)
      for (const [name, key] of [
        [`minute ${minute}`, periodKey('minute', minute)],
        [`hour ${hour}`, periodKey('hour', hour)],
      ] as const) {
        const known = rows.get(name) ?? { key, row: this.#stored(batch, key) }
        addRow(known.row, change)
        rows.set(name, known)
      }
      addRow(this.#total, change)
    }
    this.#changes.clear()
    for (const { key, row } of rows.values()) batch.put('ledger', key, encodeRow(row))
    batch.put('ledger', TOTAL_KEY, encodeRow(this.#total))
  }

  /** Reads a row. The first commit of a minute or an hour also deletes old rows. */
  #stored(batch: WriteBatch, key: Bytes): CountRow {
    const stored = this.#database.get('ledger', key)
    if (stored === undefined) this.#prune(batch)
    return decodeRow(stored)
  }

  #prune(batch: WriteBatch): void {
    const newest = Math.max(...this.#changes.keys())
    const bounds = [
      ['minute', newest - MINUTES],
      ['hour', Math.floor((newest * MINUTE_MS) / HOUR_MS) - HOURS],
    ] as const
    for (const [kind, bound] of bounds) {
      if (bound <= 0) continue
      const range = { gte: rangeOf(kind).gte, lt: periodKey(kind, bound), limit: PRUNED_AT_ONCE }
      for (const { key } of this.#database.range('ledger', range)) batch.delete('ledger', key)
    }
  }
}
