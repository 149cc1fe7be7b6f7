/** Reads of the ledger, for any thread. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { Database, Entry } from '../database/types.ts'
import type { LedgerReader, StoredPromise } from '../ledger-types.ts'
import {
  decodeFlashblockRow,
  flashblockOf,
  heights,
  periodKey,
  rangeOf,
  transactionsOf,
} from './codec.ts'
import { addRow, countsOf, decodeRow, newRow } from './counts.ts'
import { HOUR_MS, MINUTE_MS } from './periods.ts'

/**
 * Promises read of one transaction. There is one for each payload, and further payloads add no
 * news.
 */
export const MAX_PROMISES = 16
const MAX_FLASHBLOCKS = 256
/** Minutes are surely retained this far back. */
const BY_MINUTE_MS = 2 * HOUR_MS

export function openLedgerReader(database: Database): LedgerReader {
  const rows = (range: Parameters<Database['range']>[1]) => database.range('ledger', range)
  return {
    promisesOf(hash) {
      const found = rows({ ...transactionsOf(hash), reverse: true, limit: MAX_PROMISES })
      const keys = found.map(({ key }) => flashblockOf(key)).reverse()
      const values = database.getMany('ledger', keys)
      // A promise may be pruned between the two reads.
      return keys.flatMap((key, at) => {
        const value = values[at]
        return value === undefined ? [] : promisesIn({ key, value }, hash)
      })
    },
    promisesAt(number) {
      const range = { ...heights('flashblock', number, number + 1), limit: MAX_FLASHBLOCKS }
      return rows(range).flatMap((entry) => promisesIn(entry))
    },
    countsSince(fromMs, nowMs) {
      const isRecent = nowMs - fromMs <= BY_MINUTE_MS
      const [kind, periodMs] = isRecent
        ? (['minute', MINUTE_MS] as const)
        : (['hour', HOUR_MS] as const)
      const first = Math.max(0, Math.floor(fromMs / periodMs))
      const sum = newRow()
      const range = { gte: periodKey(kind, first), lt: rangeOf(kind).lt }
      for (const { value } of database.scan('ledger', range)) addRow(sum, decodeRow(value))
      return { fromMs: first * periodMs, counts: countsOf(sum) }
    },
  }
}

function promisesIn({ key, value }: Entry, hash?: Bytes): readonly StoredPromise[] {
  const { transactions, decidedAtMs, ...flashblock } = decodeFlashblockRow(key, value, hash)
  const decided = decidedAtMs === 0 ? undefined : decidedAtMs
  return transactions.map((one) => ({ ...flashblock, decidedAtMs: decided, ...one }))
}
