/**
 * Limits the length of RocksDB's log, because every start reads it. A part of the log can go once
 * every column has written its memtables of that time to a file. RocksDB does so when two memtables
 * of a column are full, which takes days in a column with few writes. RocksDB's own bound is twelve
 * times the size of all memtables. The binding has no flush and no other bound. So a lagging column
 * is filled with deletions of a key that never existed. Each takes four bytes in the log, thirty in
 * memory, and one in the file.
 */
import { COLUMN_NAMES, type ColumnName, MEMTABLE_BYTES } from './columns.ts'
import type { Database, WriteBatch } from './types.ts'

export type LogLength = {
  /** The wrapped database; only commits through it are counted. */
  readonly database: Database
  /** Whether some column retains more of the log than it should. */
  isDue(): boolean
  /**
   * Fills the lagging columns; each `next` is one small commit. RocksDB then deletes log files in a
   * thread of its own.
   */
  shorten(): Generator<undefined, void>
}

/**
 * No column stays unflushed for more than twice this span. The log stays below 128 MiB, which a
 * start reads in about half a second.
 */
const SPAN_BYTES = 64 * 2 ** 20

/** Wraps a database right after its opening, which flushes everything. */
export function openLogLength(inner: Database, spanBytes: number = SPAN_BYTES): LogLength {
  const cycles = new Map<ColumnName, Cycle>(COLUMN_NAMES.map((name) => [name, newCycle()]))
  /** Bytes written to the log since the opening. */
  let position = 0
  const count = (writes: ReadonlyMap<ColumnName, Written>) => {
    for (const { log } of writes.values()) position += log
    for (const [column, { memory }] of writes) grow(cycles.get(column)!, column, memory, position)
  }
  const lagging = () => COLUMN_NAMES.filter((name) => position - cycles.get(name)!.from > spanBytes)
  return {
    database: counted(inner, count),
    isDue: () => lagging().length > 0,
    *shorten() {
      for (const column of lagging()) {
        const cycle = cycles.get(column)!
        const { from } = cycle
        const filler = fillerOf(inner, column)
        while (cycle.from === from) {
          filler.commit({ isRetained: true })
          position += FILLER_ROWS * FILLER_LOG_BYTES
          grow(cycle, column, FILLER_ROWS * FILLER_MEMORY_BYTES, position)
          yield
        }
      }
    },
  }
}

/**
 * A stretch of the log in which two memtables of a column have become full. Everything before the
 * stretch is in files then. At its start both may have been half full, or one full. Both become
 * full no later than this count says.
 */
type Cycle = {
  /** Position in the log where the cycle started, in bytes since the opening. */
  from: number
  /** Bytes in the memtable that is being filled. */
  memory: number
  /** Memtables filled since the start of the cycle. */
  full: number
}
const newCycle = (): Cycle => ({ from: 0, memory: 0, full: 0 })
const MERGED_MEMTABLES = 2
/** RocksDB lets a memtable exceed its size by a part of its last block. */
const FULL_SHARE = 1.1

/**
 * Counts the bytes of one commit, which fills one memtable at most: RocksDB checks memtables only
 * between commits.
 */
function grow(cycle: Cycle, column: ColumnName, bytes: number, position: number): void {
  cycle.memory += bytes
  if (cycle.memory < MEMTABLE_BYTES[column] * FULL_SHARE) return
  cycle.memory = 0
  cycle.full++
  if (cycle.full < MERGED_MEMTABLES) return
  cycle.full = 0
  cycle.from = position
}

/**
 * The filler key is in no range that is read: it sorts before all longer keys that start with 0xff.
 */
const FILLER_KEY = Uint8Array.of(0xff)
/** Rows of one commit, which takes half a millisecond. They are less than the smallest memtable. */
const FILLER_ROWS = 1000
/** Kind, column, length and key. */
const FILLER_LOG_BYTES = 4
/** Lower bound; 33 were measured (2026-11). */
const FILLER_MEMORY_BYTES = 30

function fillerOf(database: Database, column: ColumnName): WriteBatch {
  const batch = database.batch()
  for (let at = 0; at < FILLER_ROWS; at++) batch.delete(column, FILLER_KEY)
  return batch
}

/** Bytes of one commit in one column. */
type Written = { readonly log: number; readonly memory: number }
const NOTHING: Written = { log: 0, memory: 0 }
/** Overhead of a row: an upper bound in the log, a lower bound in memory. */
const ROW_LOG_BYTES = 12
const ROW_MEMORY_BYTES = 20

function counted(
  inner: Database,
  count: (writes: ReadonlyMap<ColumnName, Written>) => void,
): Database {
  return {
    get: (column, key) => inner.get(column, key),
    getMany: (column, keys, options) => inner.getMany(column, keys, options),
    range: (column, range) => inner.range(column, range),
    scan: (column, range) => inner.scan(column, range),
    clear: (column) => inner.clear(column),
    flush: () => inner.flush(),
    sync: () => inner.sync(),
    stats: () => inner.stats(),
    logBytes: () => inner.logBytes(),
    share: () => inner.share(),
    threadEnded: (thread) => inner.threadEnded(thread),
    close: (timeoutMs) => inner.close(timeoutMs),
    batch() {
      const batch = inner.batch()
      const writes = new Map<ColumnName, Written>()
      const add = (column: ColumnName, bytes: number) => {
        const { log, memory } = writes.get(column) ?? NOTHING
        writes.set(column, {
          log: log + bytes + ROW_LOG_BYTES,
          memory: memory + bytes + ROW_MEMORY_BYTES,
        })
      }
      return {
        put(column, key, value) {
          batch.put(column, key, value)
          add(column, key.length + value.length)
        },
        merge(column, key, value) {
          batch.merge(column, key, value)
          add(column, key.length + value.length)
        },
        delete(column, key) {
          batch.delete(column, key)
          add(column, key.length)
        },
        get length() {
          return batch.length
        },
        commit(options) {
          batch.commit(options)
          count(writes)
          if (options?.isRetained !== true) writes.clear()
        },
      }
    },
  }
}
