/**
 * Removes rows that are out of every window, in small steps: old partial headers, undo rows,
 * dropped branches, history.
 */
import { NO_BYTES } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { rowsOf } from '../../state/encoded-diff.ts'
import type { ColumnName } from '../database/columns.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import { deleteUndo } from '../trie/undo.ts'
import { decodeNumber, encodeNumber, numberThen, tailKey, withNumber } from './block-codec.ts'
import { columnsOf } from './persist.ts'
import { openStore } from './store.ts'

export type PruneLimits = {
  /** Persisted blocks that can be unwound. */
  readonly undoWindow: number
  /** Blocks below the persisted head whose state stays readable; undefined: all. */
  readonly historyBlocks: number | undefined
}
/** Blocks after which a partial header is deleted. */
export const PARTIAL_HEADER_BLOCKS = 64

/**
 * Makes one pass after a persist pass; each `next` does about 2 ms of work.
 * @param raiseOldest called before history rows of the block are deleted
 */
export function* prune(
  database: Database,
  limits: PruneLimits,
  raiseOldest: (number: number) => void,
): Generator<undefined, void> {
  const { number } = openStore(database).persistedHead()
  yield* prunePartialHeaders(database, number - PARTIAL_HEADER_BLOCKS)
  yield* pruneUndo(database, number - limits.undoWindow, limits.historyBlocks === undefined)
  if (limits.historyBlocks === undefined) return
  // History rows inside the undo window stay, for readers during an unwind.
  yield* pruneHistory(
    database,
    number - Math.max(limits.historyBlocks, limits.undoWindow),
    raiseOldest,
  )
}

const ROWS_IN_STEP = 512

/** Rows `number ‖ hash` of a column up to and including a height. */
function rowsUpTo(database: Database, column: ColumnName, number: number) {
  const lt = numberThen(number + 1, NO_BYTES)
  const gte = numberThen(0, NO_BYTES)
  const rows = database.range(column, { gte, lt, limit: ROWS_IN_STEP })
  // Other keys of the column are hashes of 32 bytes.
  return rows.filter(({ key }) => key.length === 40)
}

function* prunePartialHeaders(database: Database, upTo: number): Generator<undefined, void> {
  for (;;) {
    const rows = upTo < 0 ? [] : rowsUpTo(database, 'momentary', upTo)
    if (rows.length === 0) return
    const batch = database.batch()
    for (const { key } of rows) {
      batch.delete('momentary', key)
      batch.delete('momentary', key.slice(8))
    }
    batch.commit()
    yield
  }
}

export function* pruneUndo(
  database: Database,
  upTo: number,
  isDiffDropped: boolean,
): Generator<undefined, void> {
  const store = openStore(database)
  for (;;) {
    const rows = upTo < 0 ? [] : rowsUpTo(database, 'heights', upTo).slice(0, 16)
    if (rows.length === 0) return
    const batch = database.batch()
    for (const { key } of rows) {
      const hash = key.slice(8)
      const canonical = store.hashOfNumber(decodeNumber(key))
      const isCanonical = canonical !== undefined && equalBytes(canonical, hash)
      batch.delete('heights', key)
      deleteUndo(database, batch, hash)
      if (isDiffDropped || !isCanonical) batch.delete('diffs', hash)
      if (isCanonical) continue
      for (const column of ['headers', 'bodies', 'receipts'] as const) batch.delete(column, hash)
      batch.delete('bodies', tailKey(hash))
    }
    batch.commit()
    yield
  }
}

/**
 * Deletes history rows. The horizon moves first, in the database and then in memory. So a reader
 * that finds it at or below its block saw every row.
 */
function* pruneHistory(
  database: Database,
  target: number,
  raiseOldest: (number: number) => void,
): Generator<undefined, void> {
  const store = openStore(database)
  const row = database.get('meta', META.pruned)
  let done = row === undefined ? store.oldestState() : decodeNumber(row)
  while (done < target) {
    const number = done + 1
    if (number > store.oldestState()) {
      const batch = database.batch()
      batch.put('meta', META.oldest, encodeNumber(number))
      batch.commit({ isSynced: true })
    }
    raiseOldest(number)
    yield* pruneBlock(database, number)
    done = number
  }
}

function* pruneBlock(database: Database, number: number): Generator<undefined, void> {
  const store = openStore(database)
  const hash = store.hashOfNumber(number)
  const diff = hash === undefined ? undefined : store.encodedDiff(hash)
  const batch = database.batch()
  if (diff !== undefined)
    for (const { key } of rowsOf(diff)) {
      batch.delete(columnsOf(key).history, withNumber(key, number))
      if (batch.length < ROWS_IN_STEP) continue
      batch.commit()
      yield
    }
  if (hash !== undefined) batch.delete('diffs', hash)
  batch.put('meta', META.pruned, encodeNumber(number))
  batch.commit()
  yield
}
