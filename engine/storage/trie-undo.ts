/**
 * How what a block changed in the stored tries is undone: rows of the column "undo" that say of each node what was at its place before.
 * A node whose row only got other bytes, as every update of a value makes them, is a patch: it makes the row before of the row after,
 * and leaves the row before as it is, so that a fold cut in its middle is undone alike.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { decodeList } from './block-codec.ts'
import type { Database, WriteBatch } from './database.ts'
import { hashAt, lowestBit } from './trie-codec.ts'
import { inlineAt } from './trie-inline.ts'
import { type Branch, TrieError } from './trie-node.ts'
import { listStart } from './trie-rlp.ts'
import type { TrieColumn, TrieWrite } from './trie-rows.ts'

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
  for (const column of ['accountTrie', 'storageTrie'] as const) {
    const patched = nodes.filter((node) => node.column === column && node.patch !== undefined)
    const rows = database.getMany(
      column,
      patched.map(({ key }) => key),
    )
    for (const [at, node] of patched.entries()) now.set(node, rows[at])
  }
  return now
}

/** A node that a block replaced. */
export type ReplacedNode = {
  readonly column: TrieColumn
  readonly key: Bytes
  /** The row that was there; undefined: there was none, or there is a patch. */
  readonly raw: Bytes | undefined
  /** Length of the row (2), then of each run of bytes that were others: its place in the row (2), its length (1), its bytes. */
  readonly patch: Bytes | undefined
}

/** The nodes as they were before the block. */
export function* replacedNodes(
  database: Pick<Database, 'scan'>,
  blockHash: Bytes,
): Generator<ReplacedNode, void> {
  for (const { value } of database.scan('undo', undoRange(blockHash))) yield* decodeUndo(value)
}

/**
 * The row at the node's place before the block. `now`: the one after it, or already the one before; looked at for a patch only.
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
  for (let at = PATCH_HEAD; at < patch.length; ) {
    const place = (patch[at]! << 8) | patch[at + 1]!
    const end = at + RUN_HEAD + patch[at + 2]!
    before.set(patch.subarray(at + RUN_HEAD, end), place)
    at = end
  }
  return before
}

export function deleteUndo(database: Database, batch: WriteBatch, blockHash: Bytes): void {
  for (const { key } of database.scan('undo', undoRange(blockHash))) batch.delete('undo', key)
}

const UNDO_PART = 500
/** Enough for a part of patches, and usually for one of whole rows. */
const UNDO_BYTES = 262_144

/** What follows the column and says what follows the key. */
const ABSENT = 0
const WHOLE = 1
const PATCH = 2
/** Length of the item, column, kind, length of the key. */
const ITEM_HEAD = 7
const PATCH_HEAD = 2
const RUN_HEAD = 3
const LONGEST_RUN = 0xff
const LONGEST_ROW = 0xffff
/** Equal bytes that end a run: fewer cost less than the head of another one. */
const GAP = 4

const mostBytes = ({ key, previous }: TrieWrite): number =>
  ITEM_HEAD + key.length + (previous?.length ?? 0)

/** A list (`encodeList`) of: column (1) ‖ kind (1) ‖ length of the key (1) ‖ key ‖ nothing, the row, or a patch. Returns its size. */
function encodeUndo(writes: readonly TrieWrite[], bytes: Bytes): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  view.setUint32(0, writes.length)
  let at = 4
  for (const { column, key, previous, value, patched } of writes) {
    const from = at
    bytes[at + 4] = column === 'accountTrie' ? 0 : 1
    bytes[at + 6] = key.length
    bytes.set(key, at + ITEM_HEAD)
    at += ITEM_HEAD + key.length
    const end =
      previous === undefined || previous.length !== value?.length
        ? -1
        : writePatch(bytes, at, { before: previous, after: value, patched })
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

type Rows = {
  readonly before: Bytes
  /** As long. */
  readonly after: Bytes
  readonly patched: Branch | undefined
}

/** Where it ends; -1 when it would be no shorter than the row. */
function writePatch(bytes: Bytes, start: number, rows: Rows): number {
  const { before, patched } = rows
  if (before.length > LONGEST_ROW) return -1
  bytes[start] = before.length >> 8
  bytes[start + 1] = before.length & 0xff
  let to = start + PATCH_HEAD
  const runs = patched === undefined ? differences(rows) : placesOf(patched)
  for (const { from, length } of runs) {
    if (to + RUN_HEAD + length - start >= before.length) return -1
    bytes[to] = from >> 8
    bytes[to + 1] = from & 0xff
    bytes[to + 2] = length
    for (let at = 0; at < length; at++) bytes[to + RUN_HEAD + at] = before[from + at]!
    to += RUN_HEAD + length
  }
  return to
}

type Run = { readonly from: number; readonly length: number }

/** Of the children that changed: their hashes, and those that are inline. Looks at no other byte: most rows have left the caches. */
function placesOf(branch: Branch): readonly Run[] {
  const { raw, present, changed } = branch
  const runs: Run[] = []
  const start = listStart(raw)
  for (let rest = changed; rest !== 0; rest &= rest - 1) {
    const nibble = lowestBit(rest)
    runs.push({ from: start + hashAt(present, nibble) + 1, length: 32 })
    const inline = inlineAt(branch, nibble)
    if (inline !== -1) runs.push({ from: inline, length: raw[inline - 1]! })
  }
  return runs
}

function differences({ before, after }: Rows): readonly Run[] {
  const { length } = before
  const runs: Run[] = []
  for (let at = 0; at < length; at++) {
    if (before[at] === after[at]) continue
    const from = at
    let end = at + 1
    while (++at < length && at - from < LONGEST_RUN && at - end < GAP)
      if (before[at] !== after[at]) end = at + 1
    runs.push({ from, length: end - from })
    at = end - 1
  }
  return runs
}

function* decodeUndo(row: Bytes): Generator<ReplacedNode, void> {
  for (const item of decodeList(row)) {
    const key = item.subarray(3, 3 + item[2]!)
    const rest = item.subarray(3 + key.length)
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
