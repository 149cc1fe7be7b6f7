/**
 * Options and stats of the persistence thread's state. All options but the database, the shared
 * words and the clock have a default.
 */
import type { Database, DatabaseStats } from '../database/types.ts'
import type { LedgerLimits } from '../ledger-types.ts'
import type { PersistenceWords } from '../types.ts'

export type PersistenceOptions = {
  /** Database that is attached for writing and has a genesis. */
  readonly database: Database
  readonly words: PersistenceWords
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** A block is persisted when this many blocks are above it. */
  readonly foldDepth?: number
  /** Persisted blocks that a deep reorg may unwind. */
  readonly undoWindow?: number
  /**
   * Blocks below the persisted head whose state stays readable, at least the undo window;
   * undefined: all.
   */
  readonly historyBlocks?: number | undefined
  /**
   * Length of a slice in milliseconds. One slice in a hundred takes 9 to 14, because of garbage
   * collection or other load on the core.
   */
  readonly sliceMs?: number
  /** Flat values in one commit of a persist pass. */
  readonly rowsInPiece?: number
  /** Bytes of log after which a column without a flush is made to flush. */
  readonly logSpanBytes?: number
  /**
   * Bytes of trie nodes cached in memory. The default is small, because the memory is reserved at
   * once.
   */
  readonly trieCacheBytes?: number
  /**
   * Bound in bytes of the fetched rows of a lazy directory, which deletes unread ones; undefined:
   * all stay.
   */
  readonly lazyCacheBytes?: number | undefined
  /** Limits of the ledger of promises. */
  readonly ledger?: LedgerLimits
  /** Milliseconds since 1970, for the time of decisions on promises; undefined: `now` is used. */
  readonly wallMs?: () => number
}

export type PersistenceStats = DatabaseStats & {
  readonly durableNumber: number
  readonly foldedNumber: number
  /** Appended blocks that are not persisted. */
  readonly foldLag: number
  readonly queuedRequests: number
}
