/**
 * How what a block changed in the stored tries is undone: rows of the column "undo" that say of each node what was at its place before.
 * A node whose row only got other bytes, as every update of a value makes them, is a patch: it makes the row before of the row after,
 * and leaves the row before as it is, so that a fold cut in its middle is undone alike.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { take } from '../../primitives/slab.ts'
import { decodeList } from '../database/lists.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { newNodeSlab, TrieError } from './node.ts'
import { applyRuns, inverseSize, plainRow, writeDifferences, writeInverse } from './patch.ts'
import type { TrieColumn, TrieWrite } from './rows.ts'

export type UndoRow = { readonly key: Bytes; readonly value: Bytes }

/** Rows of the column "undo" for a block, to be complete before the first of the writes. A value holds until the next one is asked for. */
export function* undoRows(
  blockHash: Bytes,
  writes: readonly TrieWrite[],
): Generator<UndoRow, void> {
  // One row at least: a block that changed nothing can be told from one whose undo is gone.
  // Of one size they would be taken from the system and given back again and again.
  let space: Bytes = new Uint8Array(UNDO_BYTES)
  for (let from = 0; from === 0 || from < writes.length; from += UNDO_PART) {
    const part = writes.slice(from, from + UNDO_PART)
    const most = part.reduce((sum, write) => sum + mostBytes(write), 4)
    if (most > space.length) space = new Uint8Array(most)
    const size = encodeUndo(part, space)
    yield { key: undoKey(blockHash, from / UNDO_PART), value: space.subarray(0, size) }
  }
}

/** Puts the nodes as they were before the block into the batch; returns how many undo rows there were. @throws {TrieError} */
export function restoreNodes(database: Database, batch: WriteBatch, blockHash: Bytes): number {
  let rows = 0
  for (const { value } of database.scan('undo', undoRange(blockHash))) {
    rows++
    const nodes = [...decodeUndo(value)]
    const now = rowsNow(database, nodes)
    for (const node of nodes) {
      const raw = rowBefore(node, now.get(node))
      if (raw === undefined) batch.delete(node.column, node.key)
      else batch.put(node.column, node.key, raw)
    }
  }
  return rows
}

/** Those that are patched. */
function rowsNow(
  database: Database,
  nodes: readonly ReplacedNode[],
): ReadonlyMap<ReplacedNode, Bytes | undefined> {
  const now = new Map<ReplacedNode, Bytes | undefined>()
  const slab = newNodeSlab()
  for (const column of ['accountTrie', 'storageTrie'] as const) {
    const patched = nodes.filter((node) => node.column === column && node.patch !== undefined)
    const rows = database.getMany(
      column,
      patched.map(({ key }) => key),
    )
    for (const [at, node] of patched.entries()) {
      const row = rows[at]
      now.set(node, row && plainRow(row, (length) => take(slab, length)).row)
    }
  }
  return now
}

/** A node that a block replaced. */
export type ReplacedNode = {
  readonly column: TrieColumn
  readonly key: Bytes
  /** The row that was there; undefined: there was none, or there is a patch. */
  readonly raw: Bytes | undefined
  /** Length of the row (2), then runs (`trie-patch.ts`) of the bytes that were others. */
  readonly patch: Bytes | undefined
}

/** The nodes as they were before the block. */
export function* replacedNodes(
  database: Pick<Database, 'scan'>,
  blockHash: Bytes,
): Generator<ReplacedNode, void> {
  for (const { nodes } of undoRowsOf(database, blockHash)) yield* nodes()
}

/** The same row by row, in their order. `nodes` throws {TrieError} and {StoredFormatError}. */
export function* undoRowsOf(
  database: Pick<Database, 'scan'>,
  blockHash: Bytes,
): Generator<{ readonly key: Bytes; nodes(): Iterable<ReplacedNode> }, void> {
  for (const { key, value } of database.scan('undo', undoRange(blockHash)))
    yield { key, nodes: () => decodeUndo(value) }
}

/**
 * The row at the node's place before the block. `now`: the one after it, or already the one before, as `plainRow` has it; looked at for
 * a patch only.
 * @throws {TrieError} when `now` is neither
 */
export function rowBefore(
  { column, raw, patch }: ReplacedNode,
  now: Bytes | undefined,
): Bytes | undefined {
  if (patch === undefined) return raw
  const length = (patch[0]! << 8) | patch[1]!
  if (now?.length !== length)
    throw new TrieError(
      `${column}: a row of ${now?.length ?? 'no'} bytes where a block wrote one of ${length}: the database is damaged`,
    )
  const before = now.slice()
  if (!applyRuns(before, patch, PATCH_HEAD))
    throw new TrieError(`${column}: what a block replaced does not fit: the database is damaged`)
  return before
}

export function deleteUndo(database: Database, batch: WriteBatch, blockHash: Bytes): void {
  for (const { key } of database.scan('undo', undoRange(blockHash))) batch.delete('undo', key)
}

/** Nodes of a row: of all rows of a block but the last. */
export const UNDO_PART = 500
/** Enough for a part of patches, and usually for one of whole rows. */
const UNDO_BYTES = 262_144

/** What follows the column and says what follows the key. */
const ABSENT = 0
const WHOLE = 1
const PATCH = 2
/** Length of the item, column, kind, length of the key. */
const ITEM_HEAD = 7
const PATCH_HEAD = 2
const LONGEST_ROW = 0xffff

const mostBytes = ({ key, previous }: TrieWrite): number =>
  ITEM_HEAD + key.length + (previous?.length ?? 0)

/** A list (`encodeList`) of: column (1) ‖ kind (1) ‖ length of the key (1) ‖ key ‖ nothing, the row, or a patch. Returns its size. */
function encodeUndo(writes: readonly TrieWrite[], bytes: Bytes): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  view.setUint32(0, writes.length)
  let at = 4
  for (const write of writes) {
    const { column, key, previous } = write
    const from = at
    bytes[at + 4] = column === 'accountTrie' ? 0 : 1
    bytes[at + 6] = key.length
    bytes.set(key, at + ITEM_HEAD)
    at += ITEM_HEAD + key.length
    const end = writePatch(bytes, at, write)
    bytes[from + 5] = previous === undefined ? ABSENT : end === -1 ? WHOLE : PATCH
    if (end !== -1) at = end
    else if (previous !== undefined) {
      bytes.set(previous, at)
      at += previous.length
    }
    view.setUint32(from, at - from - 4)
  }
  return at
}

/** Where it ends; -1 when it would be no shorter than the row, or the rows have nothing to do with each other. */
function writePatch(bytes: Bytes, start: number, { previous, value, patch }: TrieWrite): number {
  const length = previous?.length ?? 0
  if (previous === undefined || length !== value?.length || length > LONGEST_ROW) return -1
  const [from, end] = [start + PATCH_HEAD, start + length]
  bytes[start] = length >> 8
  bytes[start + 1] = length & 0xff
  if (patch !== undefined)
    return from + inverseSize(patch) < end ? writeInverse(bytes, from, previous, patch) : -1
  // No run begins at 0.
  if (previous[0] !== value[0]) return -1
  const place = { from: 1, length: length - 1 }
  return writeDifferences(bytes, from, { row: previous, other: value, place, end: end - 1 })
}

function* decodeUndo(row: Bytes): Generator<ReplacedNode, void> {
  for (const item of decodeList(row)) {
    const key = item.subarray(3, 3 + item[2]!)
    const rest = item.subarray(3 + key.length)
    if (item[0]! > 1 || item[1]! > PATCH)
      throw new TrieError('what a block replaced cannot be read: the database is damaged')
    yield {
      column: item[0] === 0 ? 'accountTrie' : 'storageTrie',
      key,
      raw: item[1] === WHOLE ? rest : undefined,
      patch: item[1] === PATCH ? rest : undefined,
    }
  }
}

function undoKey(blockHash: Bytes, part: number): Bytes {
  const key = new Uint8Array(36)
  key.set(blockHash)
  new DataView(key.buffer).setUint32(32, part)
  return key
}

const undoRange = (blockHash: Bytes) => ({
  gte: undoKey(blockHash, 0),
  lt: undoKey(blockHash, 0xffff_ffff),
})
