/**
 * Undo of a block's changes in the stored tries. Rows of the column "undo" have each node's row
 * before the block. If a row only has other bytes, as after every update of a value, the entry is a
 * patch. The patch makes the row before from the row after, and does not change the row before. So
 * an interrupted persist pass is undone in the same way.
 */
import { type Bytes, take } from '../../primitives/bytes.ts'
import { decodeList } from '../database/lists.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { newNodeSlab, TrieError } from './node.ts'
import { applyRuns, inverseSize, plainRow, writeDifferences, writeInverse } from './patch.ts'
import type { TrieColumn, TrieWrite } from './rows.ts'

export type UndoRow = { readonly key: Bytes; readonly value: Bytes }

/**
 * Undo rows of a block, which must be complete before the first of the writes. A value is valid
 * until the next one is requested.
 */
export function* undoRows(
  blockHash: Bytes,
  writes: readonly TrieWrite[],
): Generator<UndoRow, void> {
  // There is at least one row, so that a block without changes differs from one whose undo rows are
  // gone. One buffer serves all rows, because buffers of this size would be allocated and freed
  // again and again.
  let space: Bytes = new Uint8Array(UNDO_BYTES)
  for (let from = 0; from === 0 || from < writes.length; from += UNDO_PART) {
    const part = writes.slice(from, from + UNDO_PART)
    const max = part.reduce((sum, write) => sum + maxBytes(write), 4)
    if (max > space.length) space = new Uint8Array(max)
    const size = encodeUndo(part, space)
    yield { key: undoKey(blockHash, from / UNDO_PART), value: space.subarray(0, size) }
  }
}

/**
 * Puts the nodes as they were before the block into the batch; returns the number of undo rows.
 * @throws {TrieError}
 */
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

/** Current rows of the nodes with a patch. */
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

export type ReplacedNode = {
  readonly column: TrieColumn
  readonly key: Bytes
  /** The former row; undefined if there was none, or there is a patch. */
  readonly raw: Bytes | undefined
  /** Length of the row (2), then runs (`patch.ts`) of the bytes that differed. */
  readonly patch: Bytes | undefined
}

/** The nodes as they were before the block. */
export function* replacedNodes(
  database: Pick<Database, 'scan'>,
  blockHash: Bytes,
): Generator<ReplacedNode, void> {
  for (const { nodes } of undoRowsOf(database, blockHash)) yield* nodes()
}

/** The undo rows of a block, in order. `nodes` throws {TrieError} and {StoredFormatError}. */
export function* undoRowsOf(
  database: Pick<Database, 'scan'>,
  blockHash: Bytes,
): Generator<{ readonly key: Bytes; nodes(): Iterable<ReplacedNode> }, void> {
  for (const { key, value } of database.scan('undo', undoRange(blockHash)))
    yield { key, nodes: () => decodeUndo(value) }
}

/**
 * The row at the node's path before the block.
 * @param now the row after or already before the block, from `plainRow`; only used for a patch
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

/** Nodes in each undo row of a block except the last. */
export const UNDO_PART = 500
/** Enough for a row of patches, and usually for a row of full entries. */
const UNDO_BYTES = 262_144

/** Kind of an entry, which says what follows the key. */
const ABSENT = 0
const FULL = 1
const PATCH = 2
/** Length of the item, column, kind, length of the key. */
const ITEM_HEAD = 7
const PATCH_HEAD = 2
const LONGEST_ROW = 0xffff

const maxBytes = ({ key, previous }: TrieWrite): number =>
  ITEM_HEAD + key.length + (previous?.length ?? 0)

/**
 * Encodes a list (`encodeList`) of entries and returns its size. An entry is column (1) ‖ kind (1)
 * ‖ length of the key (1) ‖ key ‖ row or patch.
 */
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
    bytes[from + 5] = previous === undefined ? ABSENT : end === -1 ? FULL : PATCH
    if (end !== -1) at = end
    else if (previous !== undefined) {
      bytes.set(previous, at)
      at += previous.length
    }
    view.setUint32(from, at - from - 4)
  }
  return at
}

/**
 * Writes an undo patch. Returns its end, or −1 when it would be as long as the row, or the rows do
 * not match.
 */
function writePatch(bytes: Bytes, start: number, { previous, value, patch }: TrieWrite): number {
  const length = previous?.length ?? 0
  if (previous === undefined || length !== value?.length || length > LONGEST_ROW) return -1
  const [from, end] = [start + PATCH_HEAD, start + length]
  bytes[start] = length >> 8
  bytes[start + 1] = length & 0xff
  if (patch !== undefined)
    return from + inverseSize(patch) < end ? writeInverse(bytes, from, previous, patch) : -1
  // A run cannot start at position 0.
  if (previous[0] !== value[0]) return -1
  const range = { from: 1, length: length - 1 }
  return writeDifferences(bytes, from, { row: previous, other: value, range, end: end - 1 })
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
      raw: item[1] === FULL ? rest : undefined,
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
