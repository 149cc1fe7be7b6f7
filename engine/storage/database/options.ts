/**
 * Checks of options that the binding would ignore or crash on: unknown names, wrong types, sizes
 * that wrap.
 */

export type ColumnOptions = {
  /** Bytes of this column's block cache, at most 2³² − 1. */
  readonly cacheSize?: number
  readonly cacheIndexAndFilterBlocks?: boolean
  readonly blockSize?: number
  readonly filterPolicy?: string
  readonly optimize?: 'point-lookup'
  readonly compression?: boolean
  readonly compaction?: 'level' | 'universal'
  /** Bytes of four memtables. The binding has no other option for their size. */
  readonly memtableMemoryBudget?: number
  /** `fixed:<length>`. */
  readonly prefixExtractor?: string
  /** Operation of `merge` in this column. Without it a merge is refused. */
  readonly mergeOperator?: string
}

export type DatabaseOptions = {
  /** Otherwise an absent directory is refused. */
  readonly createIfMissing?: boolean
  /** Background threads of RocksDB. */
  readonly parallelism?: number
  readonly walCompression?: boolean
  /** Threads that can be attached at the same time, the opener included. */
  readonly maxThreads?: number
}

export type DatabaseErrorReason =
  | 'missing'
  | 'locked'
  | 'corrupt'
  | 'io'
  | 'invalid'
  | 'closed'
  | 'busy'

/**
 * `closed` and `busy` belong to shutdown, `io` and `corrupt` to the disk; `invalid` is a mistake of
 * the caller.
 */
export class DatabaseError extends Error {
  override name = 'DatabaseError'
  readonly reason: DatabaseErrorReason
  constructor(reason: DatabaseErrorReason, message: string) {
    super(message)
    this.reason = reason
  }
}

export function toDatabaseError(error: unknown): DatabaseError {
  const { code, message } = error as { code?: string; message?: string }
  return new DatabaseError(REASONS[code ?? ''] ?? 'invalid', message ?? String(error))
}
const REASONS: Readonly<Record<string, DatabaseErrorReason>> = {
  LEVEL_LOCKED: 'locked',
  LEVEL_CORRUPTION: 'corrupt',
  LEVEL_IO_ERROR: 'io',
}

/** @throws {DatabaseError} `invalid`, naming the option */
export function checkDatabaseOptions(options: DatabaseOptions): void {
  check('database', options, DATABASE_CHECKS)
}

/** @throws {DatabaseError} `invalid`, naming the column and the option */
export function checkColumnOptions(columns: Readonly<Record<string, ColumnOptions>>): void {
  for (const [name, options] of Object.entries(columns))
    check(`column ${name}`, options, COLUMN_CHECKS)
}

type Check = (value: unknown) => boolean
const isBoolean: Check = (value) => typeof value === 'boolean'
const isInteger =
  (min: number, max: number): Check =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max
const isText =
  (pattern: RegExp): Check =>
  (value) =>
    typeof value === 'string' && pattern.test(value)

const DATABASE_CHECKS: Readonly<Record<keyof DatabaseOptions, Check>> = {
  createIfMissing: isBoolean,
  parallelism: isInteger(1, 64),
  walCompression: isBoolean,
  maxThreads: isInteger(1, 1024),
}
const COLUMN_CHECKS: Readonly<Record<keyof ColumnOptions, Check>> = {
  // 2 ** 32 wraps to no cache at all.
  cacheSize: isInteger(0, 2 ** 32 - 1),
  cacheIndexAndFilterBlocks: isBoolean,
  blockSize: isInteger(1024, 2 ** 22),
  filterPolicy: isText(/^(bloomfilter|ribbonfilter):\d+$/),
  optimize: isText(/^point-lookup$/),
  compression: isBoolean,
  compaction: isText(/^(level|universal)$/),
  // RocksDB makes no memtable smaller than 64 KiB.
  memtableMemoryBudget: isInteger(2 ** 18, 2 ** 40),
  prefixExtractor: isText(/^fixed:\d+$/),
  // The binding accepts an unknown name, and only the first merge fails.
  mergeOperator: isText(/^id=stringappend;delimiter=$/),
}

function check(what: string, options: object, checks: Readonly<Record<string, Check>>): void {
  for (const [name, value] of Object.entries(options)) {
    const isValid = Object.hasOwn(checks, name) ? checks[name] : undefined
    if (isValid === undefined)
      throw new DatabaseError('invalid', `${what}: unknown option "${name}"`)
    if (value !== undefined && !isValid(value))
      throw new DatabaseError('invalid', `${what}: bad value for "${name}": ${String(value)}`)
  }
}
