/** Moves a block's diff into flat state and history, and its trie nodes into the stored trie; in pieces, each one commit. */
import type { Bytes } from '../primitives/bytes.ts'
import { compareBytes, equalBytes } from '../primitives/words.ts'
import { encodeAccount } from '../state/account-codec.ts'
import type { AccountChange, SlotChange, StateDiff } from '../state/diff.ts'
import { isSameAccount } from '../state/diff-codec.ts'
import {
  decodeBody,
  decodeList,
  encodeHead,
  encodeNumber,
  encodePlace,
  withNumber,
} from './block-codec.ts'
import type { Database, WriteBatch } from './database.ts'
import { logPostings } from './log-index.ts'
import { META } from './meta.ts'
import type { StateTrie, TrieVersion } from './trie.ts'
import { putNode, type TrieWrite } from './trie-rows.ts'
import { undoRows } from './trie-undo.ts'
import type { StoredHead } from './types.ts'

export type Fold = {
  readonly database: Database
  readonly trie: StateTrie
  /** The trie after this block; its parent's is the stored one. */
  readonly version: TrieVersion
  readonly block: StoredHead
  readonly diff: StateDiff
  /** Flat values, each with its history row, in one commit. */
  readonly rowsInPiece?: number | undefined
}

/**
 * Each `next` does about a millisecond of work; appends may come in between. Idempotent: the previous values come from the appended diff, so a
 * fold cut by a crash is begun again. The fold word must name the block before the first `next`.
 */
export function* foldBlock(fold: Fold): Generator<undefined, void> {
  const { database, block, diff, rowsInPiece = ROWS_IN_PIECE } = fold
  const batch = database.batch()
  batch.put('meta', META.folding, encodeHead(block))
  const sorted = yield* sortDiff(diff)
  for (const piece of pieces(rowsOf(sorted), rowsInPiece)) {
    for (const row of piece) putRow(batch, row, block.number)
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

/** Writes of one key: its flat value and its history row stand in one batch. */
type Row =
  | { readonly account: AccountChange }
  | { readonly address: Bytes; readonly slot: SlotChange }

const ROWS_IN_PIECE = 128
const NODES_IN_PIECE = 256
const SORTED_IN_STEP = 1_024
const POSTINGS_IN_PIECE = 512

/** Every key that the diff changes: 20 bytes for an account, 52 for a slot. */
export function* changedKeys(diff: StateDiff): Generator<Bytes, void> {
  for (const row of rowsOf(diff))
    yield 'account' in row ? row.account.address : slotKey(row.address, row.slot.key)
}

export function slotKey(address: Bytes, slot: Bytes): Bytes {
  const key = new Uint8Array(52)
  key.set(address)
  key.set(slot, 20)
  return key
}

/** The rows as they were before the block; used by an unfold. */
export function putPrevious(batch: WriteBatch, diff: StateDiff, number: number): void {
  for (const row of rowsOf(diff))
    if ('account' in row) {
      const { address, before } = row.account
      putFlat(batch, 'accounts', { key: address, value: before && encodeAccount(before) })
      batch.delete('accountHistory', withNumber(address, number))
    } else {
      const key = slotKey(row.address, row.slot.key)
      putFlat(batch, 'slots', { key, value: wordOrAbsent(row.slot.before) })
      batch.delete('slotHistory', withNumber(key, number))
    }
}

function putRow(batch: WriteBatch, row: Row, number: number): void {
  if ('account' in row) {
    const { address, before, after } = row.account
    putFlat(batch, 'accounts', { key: address, value: after && encodeAccount(after) })
    const previous = before === undefined ? ABSENT : encodeAccount(before)
    batch.put('accountHistory', withNumber(address, number), previous)
    return
  }
  const key = slotKey(row.address, row.slot.key)
  putFlat(batch, 'slots', { key, value: wordOrAbsent(row.slot.after) })
  batch.put('slotHistory', withNumber(key, number), wordOrAbsent(row.slot.before) ?? ABSENT)
}

function putFlat(
  batch: WriteBatch,
  column: 'accounts' | 'slots',
  { key, value }: { readonly key: Bytes; readonly value: Bytes | undefined },
): void {
  if (value === undefined) batch.delete(column, key)
  else batch.put(column, key, value)
}

function* rowsOf(diff: StateDiff): Generator<Row, void> {
  for (const account of diff) {
    const { address, before, after, slots } = account
    if (!isSameAccount(before, after)) yield { account }
    for (const slot of slots) if (!equalBytes(slot.before, slot.after)) yield { address, slot }
  }
}

/** In the order of the keys: a commit of sorted rows costs a third. */
function* sortDiff(diff: StateDiff): Generator<undefined, StateDiff> {
  const changes = yield* sort(diff, (a, b) => compareBytes(a.address, b.address))
  const sorted: AccountChange[] = []
  for (const change of changes) {
    const slots = yield* sort(change.slots, (a, b) => compareBytes(a.key, b.key))
    sorted.push({ ...change, slots })
  }
  return sorted
}

/** 10,000 slots at once took 20 ms: runs of a step each are sorted, then merged. */
function* sort<T>(
  items: readonly T[],
  compare: (a: T, b: T) => number,
): Generator<undefined, readonly T[]> {
  if (items.length <= SORTED_IN_STEP) return items.toSorted(compare)
  const middle = items.length >> 1
  const left = yield* sort(items.slice(0, middle), compare)
  yield
  const right = yield* sort(items.slice(middle), compare)
  yield
  const merged: T[] = []
  for (let l = 0, r = 0; merged.length < items.length; ) {
    const isLeft = r === right.length || (l < left.length && compare(left[l]!, right[r]!) <= 0)
    merged.push(isLeft ? left[l++]! : right[r++]!)
    if (merged.length % SORTED_IN_STEP === 0) yield
  }
  return merged
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

/** Before the fold head names the block: whoever may look for its logs in the index finds all of them. */
function* putPostings({ database, block }: Fold, batch: WriteBatch): Generator<undefined, void> {
  const receipts = database.get('receipts', block.hash)
  if (receipts === undefined) throw new Error(`block ${block.number}: its receipts are not stored`)
  for (const piece of pieces(logPostings(block.number, decodeList(receipts)), POSTINGS_IN_PIECE)) {
    for (const { key, value } of piece) batch.merge('logs', key, value)
    batch.commit()
    yield
  }
}

function putIndexes({ database, block }: Fold, batch: WriteBatch): void {
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

const ABSENT = new Uint8Array(0)
const wordOrAbsent = (word: Bytes): Bytes | undefined =>
  word.some((byte) => byte !== 0) ? word : undefined
