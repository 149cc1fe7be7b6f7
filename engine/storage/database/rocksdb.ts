/**
 * Typed wrapper of RocksDB, and the only file that imports the binding. The native code trusts its
 * caller, so everything is checked here.
 */
import { existsSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import native, { type Batch, type Column, type Context } from '@nxtedition/rocksdb/binding.js'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { type ColumnName, checkMerge } from './columns.ts'
import { makeDirectory } from './disk.ts'
import { type LogFiles, openLogFiles } from './log-files.ts'
import { createMemoryDatabase } from './memory.ts'
import {
  type ColumnOptions,
  checkColumnOptions,
  checkDatabaseOptions,
  DatabaseError,
  type DatabaseOptions,
  toDatabaseError,
} from './options.ts'
import {
  clearLines,
  closeReadBarrier,
  createReadBarrierWords,
  isReadBarrierOpen,
  joinReadBarrier,
  type ReadBarrier,
  type ReadBarrierWords,
} from './read-barrier.ts'
import type { Database, DatabaseStats, Entry, Range, SharedDatabase, WriteBatch } from './types.ts'

/**
 * Opens the one database of this process, in the main thread. When the opening thread ends, the
 * database is closed for all threads.
 * @throws {DatabaseError} `missing`, `locked` (open elsewhere), `corrupt`, `io`, `invalid`
 */
export async function openDatabase(
  path: string,
  columns: Readonly<Record<ColumnName, ColumnOptions>>,
  options: DatabaseOptions = {},
): Promise<Database> {
  checkDatabaseOptions(options)
  checkColumnOptions(columns)
  const { maxThreads = 128, createIfMissing = false, ...rest } = options
  // The binding makes only one directory level, and makes it even when it then refuses to open.
  if (createIfMissing) makeDirectory(path)
  else if (!existsSync(join(path, 'CURRENT')))
    throw new DatabaseError('missing', `no database in ${path}`)
  const context = native.db_init(path)
  const opening = {
    parallelism: 2,
    // Hashes do not compress: the attempt costs four times as much as writing 20 MB of trie nodes
    // (2026-11).
    walCompression: false,
    ...rest,
    createIfMissing,
    columns: { default: UNUSED_DEFAULT, ...columns },
  }
  const handles = await new Promise<Readonly<Record<string, Column>>>((resolve, reject) => {
    native.db_open(context, opening, (error, result) => {
      if (error !== null || result === undefined) reject(toDatabaseError(error))
      else resolve(result)
    })
  })
  return new RocksDatabase({
    context,
    handles,
    words: createReadBarrierWords(maxThreads),
    isOwner: true,
    isWriter: true,
  })
}

/**
 * Attaches another thread to the database; synchronous, 2 µs.
 * @param options `isWriter` is for the persistence thread alone
 * @throws {DatabaseError} `closed`
 */
export function attachDatabase(
  shared: SharedDatabase,
  options: { readonly isWriter?: boolean } = {},
): Database {
  // Given a closed handle, the binding would open the path again.
  if (!isReadBarrierOpen(shared.readBarrier))
    throw new DatabaseError('closed', 'the database is closed')
  const context = native.db_init(shared.handle)
  const handles = native.db_open(context, {}, () => {})
  if (typeof handles !== 'object') throw new DatabaseError('closed', 'the database is closed')
  return new RocksDatabase({
    context,
    handles,
    words: shared.readBarrier,
    isOwner: false,
    isWriter: options.isWriter ?? false,
  })
}

/** Opens a database over maps for one thread: for tests, and for chains that need no disk. */
export function memoryDatabase(): Database {
  return createMemoryDatabase()
}

/** RocksDB demands this column. */
const UNUSED_DEFAULT: ColumnOptions = {
  compaction: 'level',
  memtableMemoryBudget: 2 ** 18,
  cacheSize: 2 ** 20,
}
const PAGE = 1000
/** The upper bound is longer than any key. */
const ALL_KEYS = { gte: NO_BYTES, lt: new Uint8Array(256).fill(0xff) }
const CLOSE_TIMEOUT_MS = 5000

function diskOf(path: string): { readonly path: string; readonly freeBytes: number } {
  const { bavail, bsize } = statfsSync(path)
  return { path, freeBytes: bavail * bsize }
}

type RocksOptions = {
  readonly context: Context
  readonly handles: Readonly<Record<string, Column>>
  readonly words: ReadBarrierWords
  readonly isOwner: boolean
  readonly isWriter: boolean
}

class RocksDatabase implements Database {
  readonly #context: Context
  readonly #words: ReadBarrierWords
  readonly #readBarrier: ReadBarrier
  readonly #isOwner: boolean
  readonly #isWriter: boolean
  /**
   * Column and value encoding, which are also the options of a read and of a put. There is one
   * object per column.
   */
  readonly #columns: ReadonlyMap<
    string,
    { readonly column: Column; readonly valueEncoding: string }
  >
  readonly #single: Bytes[] = [NO_BYTES]
  #logFiles: LogFiles | undefined

  constructor({ context, handles, words, isOwner, isWriter }: RocksOptions) {
    this.#context = context
    this.#words = words
    this.#readBarrier = joinReadBarrier(words)
    this.#isOwner = isOwner
    this.#isWriter = isWriter
    this.#columns = new Map(
      Object.entries(handles).map(([name, column]) => [name, { column, valueEncoding: 'buffer' }]),
    )
  }

  get(column: ColumnName, key: Bytes): Bytes | undefined {
    this.#single[0] = key
    return this.getMany(column, this.#single)[0]
  }

  getMany(
    column: ColumnName,
    keys: readonly Bytes[],
    { isOnce }: { readonly isOnce: boolean } = { isOnce: false },
  ): (Bytes | undefined)[] {
    const known = this.#column(column)
    // Putting a block into its cache and evicting another is a seventh of a read's cost (2026-11).
    const options = isOnce ? { ...known, fillCache: false } : known
    return this.#run(() => native.db_get_many_sync(this.#context, keys, options)).map(plain)
  }

  range(column: ColumnName, { limit, ...range }: Range & { readonly limit: number }) {
    if (!Number.isSafeInteger(limit) || limit < 1 || limit >= 2 ** 31)
      throw new DatabaseError('invalid', `limit ${limit} is not a positive 31-bit integer`)
    const options = this.#cursorOptions(column, range)
    // `db_query` is avoided: it dereferences null when its thread is terminated inside it.
    const rows = this.#run(() => {
      const cursor = native.iterator_init(this.#context, { ...options, limit })
      try {
        return native.iterator_nextv_sync(cursor, limit).rows
      } finally {
        native.iterator_close(cursor)
      }
    })
    return entriesOf(rows)
  }

  *scan(column: ColumnName, range: Range): Generator<Entry, void> {
    const options = this.#cursorOptions(column, range)
    const cursor = this.#run(() => native.iterator_init(this.#context, options))
    try {
      for (;;) {
        const { rows, finished } = this.#run(() => native.iterator_nextv_sync(cursor, PAGE))
        yield* entriesOf(rows)
        if (finished) return
      }
    } finally {
      if (this.#readBarrier.isOpen()) this.#run(() => native.iterator_close(cursor))
    }
  }

  batch(): WriteBatch {
    this.#checkWriter()
    const batch: Batch = native.batch_init()
    // A persist pass calls this thousands of times, so it makes no closure for each call.
    const add = (call: typeof native.batch_put, column: ColumnName, key: Bytes, value: Bytes) => {
      const options = this.#column(column)
      this.#readBarrier.enter()
      try {
        call(batch, key, value, options)
      } catch (error) {
        throw toDatabaseError(error)
      } finally {
        this.#readBarrier.leave()
      }
    }
    return {
      put: (column, key, value) => add(native.batch_put, column, key, value),
      delete: (column, key) => this.#run(() => native.batch_del(batch, key, this.#column(column))),
      merge: (column, key, value) => {
        checkMerge(column)
        add(native.batch_merge, column, key, value)
      },
      get length() {
        return native.batch_count(batch)
      },
      commit: ({ isSynced = false, isRetained = false } = {}) =>
        this.#run(() => {
          native.batch_write(this.#context, batch, { sync: isSynced })
          if (!isRetained) native.batch_clear(batch)
        }),
    }
  }

  clear(name: ColumnName): void {
    this.#checkWriter()
    const { column } = this.#column(name)
    this.#run(() => native.db_clear(this.#context, { column, ...ALL_KEYS }))
  }

  flush(): void {
    this.batch().commit({ isSynced: true })
  }

  stats(): DatabaseStats {
    return this.#run(() => {
      const number = (name: string) =>
        Number(native.db_get_property(this.#context, `rocksdb.${name}`))
      const backgroundErrors = number('background-errors')
      return {
        sequence: native.db_get_latest_sequence(this.#context),
        backgroundErrors,
        ...(backgroundErrors > 0 ? { disk: diskOf(native.db_get_location(this.#context)) } : {}),
        isWriteStopped: number('is-write-stopped') === 1,
        delayedWriteRate: number('actual-delayed-write-rate'),
        runningCompactions: number('num-running-compactions'),
      }
    })
  }

  sync(): Promise<void> {
    return this.#log().sync()
  }

  logBytes(): Promise<number> {
    return this.#log().bytes()
  }

  #log(): LogFiles {
    this.#logFiles ??= openLogFiles(this.#run(() => native.db_get_location(this.#context)))
    return this.#logFiles
  }

  share(): SharedDatabase {
    const handle = this.#run(() => native.db_get_handle(this.#context))
    return { handle, columns: [...this.#columns.keys()], readBarrier: this.#words }
  }

  threadEnded(threadId: number): void {
    clearLines(this.#words, threadId)
  }

  async close(timeoutMs: number = CLOSE_TIMEOUT_MS): Promise<void> {
    if (!this.#isOwner || !(await closeReadBarrier(this.#words, timeoutMs))) return
    await new Promise<void>((resolve, reject) => {
      native.db_close(this.#context, (error) => {
        if (error === null || error === undefined) resolve()
        else reject(toDatabaseError(error))
      })
    })
  }

  #run<T>(call: () => T): T {
    this.#readBarrier.enter()
    try {
      return call()
    } catch (error) {
      throw error instanceof DatabaseError ? error : toDatabaseError(error)
    } finally {
      this.#readBarrier.leave()
    }
  }

  #checkWriter(): void {
    if (!this.#isWriter)
      throw new DatabaseError('invalid', 'this thread is attached for reading only')
  }

  #column(name: ColumnName) {
    const options = this.#columns.get(name)
    // Without a column the binding would use "default".
    if (options === undefined) throw new DatabaseError('invalid', `unknown column "${name}"`)
    return options
  }

  #cursorOptions(column: ColumnName, { gte, lt, reverse = false, isOnce = false }: Range) {
    if (!(gte instanceof Uint8Array) || !(lt instanceof Uint8Array))
      throw new DatabaseError('invalid', 'bounds must be bytes')
    return {
      column: this.#column(column).column,
      gte,
      lt,
      reverse,
      // Without both encodings every read throws.
      keyEncoding: 'buffer',
      valueEncoding: 'buffer',
      fillCache: !isOnce,
      asyncIO: false,
    }
  }
}

function entriesOf(rows: readonly (Bytes | undefined)[]): Entry[] {
  const entries: Entry[] = []
  for (let i = 0; i < rows.length; i += 2)
    entries.push({ key: plain(rows[i])!, value: plain(rows[i + 1])! })
  return entries
}

/** Views the bytes as a Uint8Array, whose `slice` copies. A Buffer's `slice` shares its memory. */
const plain = (value: Bytes | undefined): Bytes | undefined =>
  value && new Uint8Array(value.buffer, value.byteOffset, value.length)
