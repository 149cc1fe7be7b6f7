/** What methods ask of the ledger: it is read where they run, and written by the keeper. */
import type { Database } from '../../engine/storage/database/types.ts'
import { openLedgerReader } from '../../engine/storage/ledger/reader.ts'
import type { PromiseService } from '../../rpc/seam/ports.ts'

/** @param nowMs milliseconds since 1970 */
export function openPromises(database: Database, nowMs: () => number): PromiseService {
  const ledger = openLedgerReader(database)
  return {
    of: (hash) => ledger.promisesOf(hash),
    counts: (windowMs) => ledger.countsSince(nowMs() - windowMs, nowMs()),
    nowMs,
  }
}
