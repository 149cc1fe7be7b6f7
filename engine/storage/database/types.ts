/** The database as everybody else sees it: columns of sorted keys, atomic batches. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { ColumnName } from './columns.ts'
import type { GateWords } from './gate.ts'

/** Plain data: goes through workerData and messages. */
export type SharedDatabase = {
  readonly handle: bigint
  readonly columns: readonly string[]
  readonly gate: GateWords
}

export type Entry = { readonly key: Bytes; readonly value: Bytes }

/** Keys from `gte` up to but not including `lt`; `reverse`: from the end. */
export type Range = {
  readonly gte: Bytes
  readonly lt: Bytes
  readonly reverse?: boolean
  /** The block caches need not keep what is read. */
  readonly isOnce?: boolean
}

/** Synchronous, sees the newest commit. Values are fresh copies. Every call throws {DatabaseError}. */
export interface Database {
  get(column: ColumnName, key: Bytes): Bytes | undefined
  /** In the order of the keys, from one moment. `isOnce`: who asks keeps them, the block caches need not. */
  getMany(
    column: ColumnName,
    keys: readonly Bytes[],
    options?: { readonly isOnce: boolean },
  ): (Bytes | undefined)[]
  /** Up to `limit` entries, from one moment. In a history column both bounds share the prefix. */
  range(column: ColumnName, range: Range & { readonly limit: number }): Entry[]
  /** All entries in pages, from one moment; released when the loop ends. */
  scan(column: ColumnName, range: Range): Generator<Entry, void>
  batch(): WriteBatch
  /** Every row of a column goes, at once and on its own: no part of a batch. For the thread that writes. */
  clear(column: ColumnName): void
  /** Makes every earlier commit survive a power loss. Commits survive the death of the process without it. */
  flush(): void
  /** The same without waiting for the disk in this thread. Rejects with a {DatabaseError} `io`. */
  sync(): Promise<void>
  stats(): DatabaseStats
  /** Bytes of the write-ahead log, which the next start has to read. Rejects with a {DatabaseError} `io`. */
  logBytes(): Promise<number>
  /** For `attachDatabase` in another thread of this process. */
  share(): SharedDatabase
  /** Call when a thread has exited (its id, remembered before): one that was terminated inside a call never left. */
  threadEnded(threadId: number): void
  /**
   * The opener's alone, elsewhere without effect; after the threads that read and the keeper have ended. Refuses new calls of all threads, waits
   * for those that run. @throws {DatabaseError} `busy` after `timeoutMs`: exit without closing, nothing is lost.
   */
  close(timeoutMs?: number): Promise<void>
}

export interface WriteBatch {
  put(column: ColumnName, key: Bytes, value: Bytes): void
  delete(column: ColumnName, key: Bytes): void
  /** Appends to the value of a key, or makes it. In columns with a merge operator. */
  merge(column: ColumnName, key: Bytes, value: Bytes): void
  readonly length: number
  /**
   * Atomic over all columns; the last write to a key wins. `isSynced` waits for the disk. Empty afterwards, to be used again; with
   * `isKept` as it was.
   */
  commit(options?: { readonly isSynced?: boolean; readonly isKept?: boolean }): void
}

export type DatabaseStats = {
  readonly sequence: number
  /** Above zero: writes fail until the database is opened again. */
  readonly backgroundErrors: number
  /** The device of the database, looked at where there are background errors. */
  readonly disk?: { readonly path: string; readonly freeBytes: number }
  readonly isWriteStopped: boolean
  readonly delayedWriteRate: number
  readonly runningCompactions: number
}
