/** Messages for operators when storage fails: the fault, and what to do. */
import { DiffError } from '../../state/encoded-diff.ts'
import { CutStartError, StoredChainError } from '../blocks/recover.ts'
import { EmptyStoreError } from '../blocks/store.ts'
import { UnwindError } from '../blocks/unwind.ts'
import { diskAdvice, diskFault } from '../database/disk.ts'
import { StoredFormatError } from '../database/lists.ts'
import { DatabaseError } from '../database/options.ts'
import type { Database } from '../database/types.ts'
import { JournalError } from '../directory/journal.ts'
import { TrieError } from '../trie/node.ts'

/** Describes an error of storage; undefined for any other error. */
export function storageFailure(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const isDamage =
    DAMAGES.some((kind) => error instanceof kind) ||
    (error instanceof DatabaseError && error.reason === 'corrupt')
  if (isDamage)
    return `storage: ${error.message}; start with an empty data directory, or put back a copy of this one`
  const isComplete =
    error instanceof CutStartError ||
    (error instanceof JournalError && (error.reason === 'foreign' || error.reason === 'damaged'))
  if (isComplete) return `storage: ${error.message}`
  if (error instanceof DatabaseError || error instanceof JournalError)
    return `storage: ${diskFault(error.message)}; ${diskAdvice(error.message)}, then start again`
  return undefined
}

/**
 * Makes an error with the cause of RocksDB's background errors. RocksDB only counts failed flushes
 * and compactions, and names the cause to the next writer.
 * @returns an error with the cause, if the next write or the device gives one
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
/** A flush or a compaction needs more free space than this at once. */
const FULL_BYTES = 64 * 2 ** 20

/** Errors of rows that contradict each other. Free disk space does not help. */
const DAMAGES = [
  DiffError,
  TrieError,
  UnwindError,
  StoredChainError,
  StoredFormatError,
  EmptyStoreError,
]
