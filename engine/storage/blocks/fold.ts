/** Moves a block's diff into flat state and history, and its trie nodes into the stored trie; in pieces, each one commit. */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { newSlab, type Slab } from '../../primitives/slab.ts'
import type { EncodedDiff } from '../../state/diff.ts'
import { type DiffRow, rowsOf, sortedRows } from '../../state/encoded-diff.ts'
import { decodeList } from '../database/lists.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { putNode, type TrieWrite } from '../trie/rows.ts'
import type { StateTrie, TrieVersion } from '../trie/trie.ts'
import { undoRows } from '../trie/undo.ts'
import type { StoredHead } from '../types.ts'
import { decodeBody, encodeHead, encodeNumber, encodePlace, withNumber } from './block-codec.ts'
import { logPostings } from './log-index.ts'

export type Fold = {
  readonly database: Database
  readonly trie: StateTrie
  /** The trie after this block; its parent's is the stored one. */
  readonly version: TrieVersion
  readonly block: StoredHead
  readonly diff: EncodedDiff
  /** Flat values, each with its history row, in one commit. */
  readonly rowsInPiece?: number | undefined
}

/**
 * Each `next` does about a millisecond of work; appends may come in between. Idempotent: the previous values come from the appended diff, so a
 * fold cut by a crash is begun again. The fold word must name the block before the first `next`.
 */
export function* foldBlock(fold: Fold): Generator<undefined, void> {
  const { database, block, diff, rowsInPiece = ROWS_IN_PIECE } = fold
  const isLazy = isLazyDirectory(database)
  const batch = database.batch()
  batch.put('meta', META.folding, encodeHead(block))
  // A commit of sorted rows costs a third.
  const of = { number: block.number, keys: newSlab(HISTORY_KEYS_BYTES), isLazy }
  for (const piece of pieces(yield* sortedRows(diff), rowsInPiece)) {
    for (const row of piece) putRow(batch, row, of)
    batch.commit()
    yield
  }
  const writes = yield* fold.trie.writes(fold.version)
  yield* storeTrie(fold, writes, batch)
  yield* putPostings(fold, batch)
  putIndexes(fold, batch)
  batch.put('meta', META.foldHead, encodeHead(block))
  batch.delete('meta', META.folding)
  batch.delete('meta', META.foldingTrie)
  batch.commit()
  fold.trie.stored(fold.version)
  // The block is folded: who stops here loses nothing.
  yield* fold.trie.keep(fold.version, writes)
}

const ROWS_IN_PIECE = 128
const NODES_IN_PIECE = 256
const POSTINGS_IN_PIECE = 512
const HISTORY_KEYS_BYTES = 16_384

/** The rows as they were before the block; used by an unfold. */
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

/** Where a row says that something is absent, as no row says nothing. */
export const isLazyDirectory = (database: Pick<Database, 'get'>): boolean =>
  database.get('meta', META.lazy) !== undefined

/** Where the values of a key lie: of an account (20 bytes) or of a slot (52). */
export const columnsOf = (key: Bytes) => (key.length === 20 ? ACCOUNT_COLUMNS : SLOT_COLUMNS)
const ACCOUNT_COLUMNS = { flat: 'accounts', history: 'accountHistory' } as const
const SLOT_COLUMNS = { flat: 'slots', history: 'slotHistory' } as const

type OfRow = {
  readonly number: number
  readonly keys: Slab
  readonly isLazy: boolean
}

/** Writes of one key: its flat value and its history row stand in one batch. */
function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow): void {
  const { flat, history } = columnsOf(key)
  putFlat(batch, flat, { key, value: after })
  if (of.isLazy) putKnown(batch, { key, before, after })
  batch.put(history, withNumber(key, of.number, of.keys), before ?? NO_BYTES)
}

/** In a lazy directory a row says that something is absent. What comes or goes has no storage but what is written here: a mark says so. */
function putKnown(batch: WriteBatch, { key, before, after }: DiffRow): void {
  const { flat } = columnsOf(key)
  if (after === undefined) batch.put(flat, key, NO_BYTES)
  const isChanged = before === undefined || after === undefined
  if (flat === 'accounts' && isChanged) putNoStorage(batch, key)
}

/** Of a lazy directory: the slots of the account that have no row are zero. */
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

/** Undo rows are complete before the first node is overwritten; the mark says from when on they are needed. */
function* storeTrie(
  { block }: Fold,
  writes: readonly TrieWrite[],
  batch: WriteBatch,
): Generator<undefined, void> {
  for (const { key, value } of undoRows(block.hash, writes)) {
    batch.put('undo', key, value)
    batch.commit()
    yield
  }
  batch.put('meta', META.foldingTrie, block.hash)
  for (const piece of pieces(writes, NODES_IN_PIECE)) {
    for (const write of piece) putNode(batch, write)
    batch.commit()
    yield
  }
}

/** What is written of a block so that it is found. */
export type Indexed = Pick<Fold, 'database' | 'block'>

/** Before the fold head names the block: whoever may look for its logs in the index finds all of them. */
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
    batch.put('transactions', hash, encodePlace({ blockNumber: block.number, index }))
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
