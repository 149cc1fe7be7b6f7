/**
 * Gives methods access to the promise ledger: read in this thread, written by the persistence
 * thread.
 */
import type { Database } from '../../engine/storage/database/types.ts'
import { openLedgerReader } from '../../engine/storage/ledger/reader.ts'
import type { PromiseService } from '../../rpc/core/ports.ts'

/**
 * Opens the reader of the promise ledger.
 * @param nowMs milliseconds since 1970
 */
export function openPromises(database: Database, nowMs: () => number): PromiseService {
  const ledger = openLedgerReader(database)
  return {
    of: (hash) => ledger.promisesOf(hash),
    counts: (windowMs) => ledger.countsSince(nowMs() - windowMs, nowMs()),
    nowMs,
  }
}
