/** What an operator reads when storage fails: what happened, and what to do. */
import { DiffError } from '../../state/encoded-diff.ts'
import { CutStartError, StoredChainError } from '../blocks/recover.ts'
import { EmptyStoreError } from '../blocks/store.ts'
import { UnfoldError } from '../blocks/unfold.ts'
import { diskAdvice } from '../database/disk-advice.ts'
import { StoredFormatError } from '../database/lists.ts'
import { DatabaseError } from '../database/options.ts'
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
    return `storage: ${error.message}; ${diskAdvice(error.message)}, then start again`
  return undefined
}

/** Rows that do not fit together: no free disk helps. */
const DAMAGES = [
  DiffError,
  TrieError,
  UnfoldError,
  StoredChainError,
  StoredFormatError,
  EmptyStoreError,
]
