/**
 * Moves a block's diff into flat state and history, and its trie nodes into the stored trie. Each
 * piece is one commit.
 */
import { type Bytes, NO_BYTES, newSlab, type Slab } from '../../primitives/bytes.ts'
import type { EncodedDiff } from '../../state/diff.ts'
import { type DiffRow, rowsOf, sortedRows } from '../../state/encoded-diff.ts'
import { decodeList } from '../database/lists.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { putNode, type TrieWrite } from '../trie/rows.ts'
import type { StateTrie, TrieVersion } from '../trie/trie.ts'
import { undoRows } from '../trie/undo.ts'
import type { StoredHead } from '../types.ts'
import {
  decodeBody,
  encodeHead,
  encodeNumber,
  encodeTransactionLocation,
  withNumber,
} from './block-codec.ts'
import { logPostings } from './log-index.ts'

export type PersistJob = {
  readonly database: Database
  readonly trie: StateTrie
  /** Trie after this block; the stored trie is that of its parent. */
  readonly version: TrieVersion
  readonly block: StoredHead
  readonly diff: EncodedDiff
  /** Flat values in one commit, each with its history row. */
  readonly rowsInPiece?: number | undefined
}

/**
 * Persists a block; each `next` does about a millisecond of work, and appends may come in between.
 * The work is idempotent, because the previous values come from the appended diff. So a persist
 * pass that a crash cut is repeated. The persisted-id word must name the block before the first
 * `next`.
 */
export function* persistBlock(job: PersistJob): Generator<undefined, void> {
  const { database, block, diff, rowsInPiece = ROWS_IN_PIECE } = job
  const isLazy = isLazyDirectory(database)
  const batch = database.batch()
  batch.put('meta', META.persisting, encodeHead(block))
  // A commit of sorted rows costs a third of an unsorted one.
  const of = { number: block.number, keys: newSlab(HISTORY_KEYS_BYTES), isLazy }
  for (const piece of pieces(yield* sortedRows(diff), rowsInPiece)) {
    for (const row of piece) putRow(batch, row, of)
    batch.commit()
    yield
  }
  const writes = yield* job.trie.writes(job.version)
  yield* storeTrie(job, writes, batch)
  yield* putPostings(job, batch)
  putIndexes(job, batch)
  batch.put('meta', META.persistedHead, encodeHead(block))
  batch.delete('meta', META.persisting)
  batch.delete('meta', META.persistingTrie)
  batch.commit()
  job.trie.stored(job.version)
  // The block is persisted: a stop during the rest loses nothing.
  yield* job.trie.cacheWritten(job.version, writes)
}

const ROWS_IN_PIECE = 128
const NODES_IN_PIECE = 256
const POSTINGS_IN_PIECE = 512
const HISTORY_KEYS_BYTES = 16_384

/** Restores the rows as they were before the block, for an unwind. */
export function putPrevious(
  batch: WriteBatch,
  diff: EncodedDiff,
  of: { readonly number: number; readonly isLazy: boolean },
): void {
  const keys = newSlab(HISTORY_KEYS_BYTES)
  for (const row of rowsOf(diff)) {
    const { flat, history } = columnsOf(row.key)
    putFlat(batch, flat, { key: row.key, value: row.before ?? (of.isLazy ? NO_BYTES : undefined) })
    batch.delete(history, withNumber(row.key, of.number, keys))
  }
}

/**
 * Whether the directory is lazy, where a missing row means unknown and an empty row means absent.
 */
export const isLazyDirectory = (database: Pick<Database, 'get'>): boolean =>
  database.get('meta', META.lazy) !== undefined

/** Columns of a key: of an account (20 bytes) or of a slot (52). */
export const columnsOf = (key: Bytes) => (key.length === 20 ? ACCOUNT_COLUMNS : SLOT_COLUMNS)
const ACCOUNT_COLUMNS = { flat: 'accounts', history: 'accountHistory' } as const
const SLOT_COLUMNS = { flat: 'slots', history: 'slotHistory' } as const

type OfRow = {
  readonly number: number
  readonly keys: Slab
  readonly isLazy: boolean
}

/** Puts the flat value and the history row of a key into one batch. */
function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow): void {
  const { flat, history } = columnsOf(key)
  putFlat(batch, flat, { key, value: after })
  if (of.isLazy) putKnown(batch, { key, before, after })
  batch.put(history, withNumber(key, of.number, of.keys), before ?? NO_BYTES)
}

/**
 * Puts the extra rows of a lazy directory. An absent value gets an empty row. A created or deleted
 * account gets a mark, because all its storage was written by blocks.
 */
function putKnown(batch: WriteBatch, { key, before, after }: DiffRow): void {
  const { flat } = columnsOf(key)
  if (after === undefined) batch.put(flat, key, NO_BYTES)
  const isChanged = before === undefined || after === undefined
  if (flat === 'accounts' && isChanged) putNoStorage(batch, key)
}

/** Marks an account of a lazy directory: its slots without a row are zero. */
export const putNoStorage = (batch: WriteBatch, address: Bytes): void =>
  batch.put('slots', address, NO_BYTES)

function putFlat(
  batch: WriteBatch,
  column: 'accounts' | 'slots',
  { key, value }: { readonly key: Bytes; readonly value: Bytes | undefined },
): void {
  if (value === undefined) batch.delete(column, key)
  else batch.put(column, key, value)
}

/**
 * Stores undo rows and trie nodes. The undo rows are complete before the first node is overwritten;
 * the row `persistingTrie` says when they are needed.
 */
function* storeTrie(
  { block }: PersistJob,
  writes: readonly TrieWrite[],
  batch: WriteBatch,
): Generator<undefined, void> {
  for (const { key, value } of undoRows(block.hash, writes)) {
    batch.put('undo', key, value)
    batch.commit()
    yield
  }
  batch.put('meta', META.persistingTrie, block.hash)
  for (const piece of pieces(writes, NODES_IN_PIECE)) {
    for (const write of piece) putNode(batch, write)
    batch.commit()
    yield
  }
}

export type Indexed = Pick<PersistJob, 'database' | 'block'>

/**
 * Writes the postings before the persisted head names the block, so that a reader of the index
 * misses no log.
 */
export function* putPostings(
  { database, block }: Indexed,
  batch: WriteBatch,
): Generator<undefined, void> {
  const receipts = database.get('receipts', block.hash)
  if (receipts === undefined) throw new Error(`block ${block.number}: its receipts are not stored`)
  for (const piece of pieces(logPostings(block.number, decodeList(receipts)), POSTINGS_IN_PIECE)) {
    for (const { key, value } of piece) batch.merge('logs', key, value)
    batch.commit()
    yield
  }
}

export function putIndexes({ database, block }: Indexed, batch: WriteBatch): void {
  const body = database.get('bodies', block.hash)
  if (body === undefined) throw new Error(`block ${block.number}: its body is not stored`)
  decodeBody(body).transactions.forEach(({ hash }, index) => {
    batch.put('transactions', hash, encodeTransactionLocation({ blockNumber: block.number, index }))
  })
  batch.put('numbers', encodeNumber(block.number), block.hash)
}

function* pieces<T>(items: Iterable<T>, size: number): Generator<readonly T[], void> {
  let piece: T[] = []
  for (const item of items) {
    piece.push(item)
    if (piece.length < size) continue
    yield piece
    piece = []
  }
  if (piece.length > 0) yield piece
}
