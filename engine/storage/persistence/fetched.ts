/**
 * Bounds the fetched rows of a lazy state. A row that no block has written can be fetched again.
 * The eviction is a clock (second chance): each round visits all columns, clears read marks, and
 * deletes rows without one.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { decodeNumber, encodeNumber, originKey, withNumber } from '../blocks/block-codec.ts'
import { columnsOf } from '../blocks/persist.ts'
import { META } from '../database/meta.ts'
import type { Database, Entry, WriteBatch } from '../database/types.ts'
import type { PersistenceWords } from '../types.ts'

export type FetchedRows = {
  /** Counts rows that are put into the batch. */
  add(batch: WriteBatch, rows: readonly Entry[]): void
  isDue(): boolean
  /**
   * Deletes rows in steps; each `next` looks at some rows and makes one commit. Ends when enough is
   * deleted, or nothing more can be.
   */
  shrink(): Generator<undefined, void>
}

/** Rows of one step, which takes about a millisecond. */
const ROWS_IN_STEP = 64
/** Estimated overhead of a row beside its key and value. */
const ROW_BYTES = 32
/** A shrink goes down to this share of the bound, so that not every new row starts another. */
const LEFT = 0.9
/** Rounds of one shrink. The first may only clear read marks. */
const ROUNDS = 2

const COLUMNS = ['accounts', 'slots', 'code'] as const
type Column = (typeof COLUMNS)[number]

export function openFetchedRows(options: {
  readonly database: Database
  readonly words: Pick<PersistenceWords, 'takeRead'>
  /** Infinity if the rows are not bounded. */
  readonly limitBytes: number
  /** Whether an unpersisted block has changed the key. */
  readonly isUnpersisted: (key: Bytes) => boolean
}): FetchedRows {
  const { database, words, limitBytes } = options
  const row = database.get('meta', META.fetched)
  let bytes = row === undefined ? 0 : decodeNumber(row)
  /** Bytes above which a shrink is due; raised after a shrink that could not delete enough. */
  let min = limitBytes
  /** Bytes added while a round was under way. */
  let since = 0
  const putTotal = (batch: WriteBatch) => batch.put('meta', META.fetched, encodeNumber(bytes))

  function* round(): Generator<undefined, { readonly isEnough: boolean }> {
    /** Bytes of fetched rows that stay; rows written by a block meanwhile count no more. */
    let staying = 0
    since = 0
    for (const column of COLUMNS)
      for (let from: Bytes = NO_BYTES; ; ) {
        const rows = database.range(column, { gte: from, lt: END, limit: ROWS_IN_STEP })
        const last = rows.at(-1)
        if (last === undefined) break
        from = successor(last.key)
        const batch = database.batch()
        for (const one of fetchedOf(column, rows, options)) {
          const { key } = one
          if (words.takeRead(key)) {
            staying += sizeOf(one)
            continue
          }
          batch.delete(column, key)
          // The no-storage mark of an account is deleted with the account.
          if (column === 'accounts') batch.delete('slots', key)
          bytes = Math.max(0, bytes - sizeOf(one))
        }
        putTotal(batch)
        batch.commit()
        if (bytes <= limitBytes * LEFT) return { isEnough: true }
        yield
      }
    bytes = staying + since
    return { isEnough: false }
  }

  return {
    add(batch, rows) {
      for (const one of rows) {
        bytes += sizeOf(one)
        since += sizeOf(one)
      }
      putTotal(batch)
    },
    isDue: () => bytes > min,
    *shrink() {
      for (let at = 0; at < ROUNDS; at++)
        if ((yield* round()).isEnough) {
          min = limitBytes
          return
        }
      // Every remaining row is read often or was written by a block.
      min = Math.max(limitBytes, bytes) + limitBytes * (1 - LEFT)
    },
  }
}

type FetchedSource = Pick<Parameters<typeof openFetchedRows>[0], 'database' | 'isUnpersisted'>

/** Selects the rows that were fetched and that no block has written since. */
function fetchedOf(
  column: Column,
  rows: readonly Entry[],
  { database, isUnpersisted }: FetchedSource,
): readonly Entry[] {
  // Code that came with an account can be fetched from the account again.
  if (column === 'code')
    return rows.filter(
      ({ key }) => key.length === HASH_BYTES && database.get('code', originKey(key)) !== undefined,
    )
  let address: Bytes = NO_BYTES
  let isMarked = false
  return rows.filter(({ key, value }) => {
    if (column === 'slots' && key.length === ADDRESS_BYTES) return false
    if (isUnpersisted(key) || hasHistory(database, key)) return false
    if (column === 'accounts' || value.length === 0) return true
    // All storage of a marked account was written by blocks, also if its history is pruned.
    const own = key.subarray(0, ADDRESS_BYTES)
    if (!equalBytes(own, address)) {
      address = own
      isMarked = database.get('slots', own) !== undefined
    }
    return !isMarked
  })
}

export function hasHistory(database: Database, key: Bytes): boolean {
  const range = { gte: withNumber(key, 0), lt: withNumber(key, Number.MAX_SAFE_INTEGER) }
  return database.range(columnsOf(key).history, { ...range, limit: 1 }).length > 0
}

const ADDRESS_BYTES = 20
const HASH_BYTES = 32
/** Upper bound of all keys. */
const END: Bytes = new Uint8Array(64).fill(0xff)

const sizeOf = ({ key, value }: Entry): number => key.length + value.length + ROW_BYTES

function successor(key: Bytes): Bytes {
  const next = new Uint8Array(key.length + 1)
  next.set(key)
  return next
}
