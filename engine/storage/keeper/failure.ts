/** What an operator reads when storage fails: what happened, and what to do. */
import { DiffError } from '../../state/encoded-diff.ts'
import { CutStartError, StoredChainError } from '../blocks/recover.ts'
import { EmptyStoreError } from '../blocks/store.ts'
import { UnfoldError } from '../blocks/unfold.ts'
import { diskAdvice, diskFault } from '../database/disk-advice.ts'
import { StoredFormatError } from '../database/lists.ts'
import { DatabaseError } from '../database/options.ts'
import type { Database } from '../database/types.ts'
import { JournalError } from '../directory/journal.ts'
import { TrieError } from '../trie/node.ts'

/** undefined: the error is none of storage's. */
export function storageFailure(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const isDamage =
    DAMAGES.some((kind) => error instanceof kind) ||
    (error instanceof DatabaseError && error.reason === 'corrupt')
  if (isDamage)
    return `storage: ${error.message}; start with an empty data directory, or put back a copy of this one`
  const saysAll =
    error instanceof CutStartError ||
    (error instanceof JournalError && (error.reason === 'foreign' || error.reason === 'damaged'))
  if (saysAll) return `storage: ${error.message}`
  if (error instanceof DatabaseError || error instanceof JournalError)
    return `storage: ${diskFault(error.message)}; ${diskAdvice(error.message)}, then start again`
  return undefined
}

/**
 * RocksDB counts what its flushes and compactions fail with, and says the reason to whoever writes next.
 * @returns an error that has the reason, where the next write or the device gives one
 */
export function backgroundFailure(database: Pick<Database, 'flush' | 'stats'>): DatabaseError {
  try {
    database.flush()
  } catch (error) {
    if (error instanceof DatabaseError) return error
    throw error
  }
  const { backgroundErrors, disk } = database.stats()
  const what = `RocksDB reports ${backgroundErrors} background errors`
  return new DatabaseError(
    'io',
    disk !== undefined && disk.freeBytes < FULL_BYTES
      ? `${what}, and No space left on device: ${disk.freeBytes} bytes are free at ${disk.path}/`
      : what,
  )
}
/** A flush or a compaction wants more than that at once. */
const FULL_BYTES = 64 * 2 ** 20

/** Rows that do not fit together: no free disk helps. */
const DAMAGES = [
  DiffError,
  TrieError,
  UnfoldError,
  StoredChainError,
  StoredFormatError,
  EmptyStoreError,
]
