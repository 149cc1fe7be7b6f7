/** Interface of the database: columns of sorted keys, atomic batches. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { ColumnName } from './columns.ts'
import type { ReadBarrierWords } from './read-barrier.ts'

/** Access for another thread. It is plain data that goes through workerData and messages. */
export type SharedDatabase = {
  readonly handle: bigint
  readonly columns: readonly string[]
  readonly readBarrier: ReadBarrierWords
}

export type Entry = { readonly key: Bytes; readonly value: Bytes }

/** Keys from `gte` up to but not including `lt`; `reverse` starts at the end. */
export type Range = {
  readonly gte: Bytes
  readonly lt: Bytes
  readonly reverse?: boolean
  /** The block caches do not retain the blocks that are read. */
  readonly isOnce?: boolean
}

/**
 * Synchronous database that sees the newest commit. Values are fresh copies. Every call throws
 * {DatabaseError}.
 */
export interface Database {
  get(column: ColumnName, key: Bytes): Bytes | undefined
  /**
   * Values in the order of the keys, from one moment. `isOnce`: the block caches do not retain the
   * blocks.
   */
  getMany(
    column: ColumnName,
    keys: readonly Bytes[],
    options?: { readonly isOnce: boolean },
  ): (Bytes | undefined)[]
  /** Up to `limit` entries, from one moment. In a history column both bounds share the prefix. */
  range(column: ColumnName, range: Range & { readonly limit: number }): Entry[]
  /** All entries in pages, from one moment; the cursor is released when the loop ends. */
  scan(column: ColumnName, range: Range): Generator<Entry, void>
  batch(): WriteBatch
  /** Deletes every row of a column at once, outside any batch. Only the writing thread calls it. */
  clear(column: ColumnName): void
  /**
   * Makes every earlier commit survive a power loss. Commits survive the death of the process
   * without it.
   */
  flush(): void
  /** Does the work of `flush` without blocking this thread. Rejects with a {DatabaseError} `io`. */
  sync(): Promise<void>
  stats(): DatabaseStats
  /**
   * Bytes of the write-ahead log, which the next start has to read. Rejects with a {DatabaseError}
   * `io`.
   */
  logBytes(): Promise<number>
  /** Returns the argument of `attachDatabase` in another thread of this process. */
  share(): SharedDatabase
  /**
   * Releases the barrier of a thread that has exited, because it may have been terminated inside a
   * call.
   * @param threadId id of the thread, stored before it exited
   */
  threadEnded(threadId: number): void
  /**
   * Closes the database; only the opener's call has an effect. Readers and the persistence thread
   * have to end first. New calls of all threads are refused, running ones are awaited.
   * @throws {DatabaseError} `busy` after `timeoutMs`: exit without closing, nothing is lost
   */
  close(timeoutMs?: number): Promise<void>
}

export interface WriteBatch {
  put(column: ColumnName, key: Bytes, value: Bytes): void
  delete(column: ColumnName, key: Bytes): void
  /** Appends to the value of a key, or creates it. Only columns with a merge operator take it. */
  merge(column: ColumnName, key: Bytes, value: Bytes): void
  readonly length: number
  /**
   * Commits atomically over all columns; the last write to a key wins. `isSynced` waits for the
   * disk. The batch is empty afterwards, unless `isRetained` is set.
   */
  commit(options?: { readonly isSynced?: boolean; readonly isRetained?: boolean }): void
}

export type DatabaseStats = {
  readonly sequence: number
  /** Above zero, writes fail until the database is opened again. */
  readonly backgroundErrors: number
  /** Device of the database, present if there are background errors. */
  readonly disk?: { readonly path: string; readonly freeBytes: number }
  readonly isWriteStopped: boolean
  readonly delayedWriteRate: number
  readonly runningCompactions: number
}
