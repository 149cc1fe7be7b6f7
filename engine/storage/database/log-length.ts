/**
 * Keeps RocksDB's log short, which every start has to read. A piece of it can go when each column has written what it had in memory by
 * then to a file. RocksDB does that when two memtables of a column are full, which takes days where a column is hardly written; its own
 * bound is twelve times what all memtables may take, and the binding has neither a flush nor a bound of our choice. So a column that
 * lags behind is filled up with deletions of a key that never was: four bytes each in the log, thirty in memory, one in the file.
 */
import { COLUMN_NAMES, type ColumnName, MEMTABLE_BYTES } from './columns.ts'
import type { Database, WriteBatch } from './types.ts'

export type LogLength = {
  /** The same database; what is committed through it counts. */
  readonly database: Database
  /** Some column holds more of the log than it should. */
  isDue(): boolean
  /** Fills up those columns; each `next` is one small commit. RocksDB then deletes files of the log in a thread of its own. */
  shorten(): Generator<undefined, void>
}

/** No column stays unflushed for longer than twice this: the log is below 128 MiB, which a start reads in about half a second. */
const SPAN_BYTES = 64 * 2 ** 20

/** Right after `inner` was opened: opening flushes everything. */
export function openLogLength(inner: Database, spanBytes: number = SPAN_BYTES): LogLength {
  const cycles = new Map<ColumnName, Cycle>(COLUMN_NAMES.map((name) => [name, newCycle()]))
  /** What was written to the log so far. */
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
          filler.commit({ isKept: true })
          position += FILLER_ROWS * FILLER_LOG_BYTES
          grow(cycle, column, FILLER_ROWS * FILLER_MEMORY_BYTES, position)
          yield
        }
      }
    },
  }
}

/**
 * From one place in the log until two memtables have become full since: then what came before that place is in files. Both may have
 * been half full there, or one full and the other empty; they are full no later than what is counted here.
 */
type Cycle = {
  /** Place in the log, bytes since it was opened. */
  from: number
  /** Bytes in the memtable that is being filled. */
  memory: number
  /** Memtables filled. */
  full: number
}
const newCycle = (): Cycle => ({ from: 0, memory: 0, full: 0 })
const MERGED_MEMTABLES = 2
/** RocksDB lets a memtable grow by a part of its last block beyond its size. */
const FULL_SHARE = 1.1

/** RocksDB looks whether a memtable is full between commits only: a large one fills no more than one. */
function grow(cycle: Cycle, column: ColumnName, bytes: number, position: number): void {
  cycle.memory += bytes
  if (cycle.memory < MEMTABLE_BYTES[column] * FULL_SHARE) return
  cycle.memory = 0
  cycle.full++
  if (cycle.full < MERGED_MEMTABLES) return
  cycle.full = 0
  cycle.from = position
}

/** Not in any range that is read: no key is shorter, and numbers and addresses that begin like it come after it. */
const FILLER_KEY = Uint8Array.of(0xff)
/** In one commit: half a millisecond, less than the smallest memtable. */
const FILLER_ROWS = 1000
/** Kind, column, length and key. */
const FILLER_LOG_BYTES = 4
/** At least; measured 33 (2026-11). */
const FILLER_MEMORY_BYTES = 30

function fillerOf(database: Database, column: ColumnName): WriteBatch {
  const batch = database.batch()
  for (let at = 0; at < FILLER_ROWS; at++) batch.delete(column, FILLER_KEY)
  return batch
}

/** By one commit, in one column. */
type Written = { readonly log: number; readonly memory: number }
const NOTHING: Written = { log: 0, memory: 0 }
/** Of a row beside its key and value: at most in the log, at least in memory. */
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
          if (options?.isKept !== true) writes.clear()
        },
      }
    },
  }
}
