/**
 * Small nodes inside the row of their parent: half of what a random update would read, and a fifth of what it would write, are branches of
 * two or three leaves. After the parent's RLP stand: a bit per nibble (2 bytes), and for each bit from the lowest: length (1) ‖ row. What
 * is inline depends on the node alone: a trie has one form, whatever made it. Rows that were written before have none, and are read alike.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { type Branch, type Extension, isShort, TrieError, type TrieNode } from './node.ts'

/** Of a row: a branch of three children, or of two below an extension. Leaves always have rows: half of what is written are they. */
const INLINE_BYTES = 128
const MASK_BYTES = 2

/** Decides for an encoded child whether it is inline; what others made stays as it is. */
export function placeBelow({ owner }: Branch | Extension, child: TrieNode): boolean {
  if (child.owner === owner)
    child.isInline = child.kind !== 'leaf' && !isShort(child) && child.raw.length <= INLINE_BYTES
  return child.isInline
}

/** Whether a node will be inline below a parent of its maker. */
export const isSmall = (node: TrieNode): boolean =>
  node.kind !== 'leaf' && node.raw.length <= INLINE_BYTES

/** Where the row of an inline child begins, its length before it; -1: it is not there. */
export function inlineAt({ raw, size, inlined }: Branch, nibble: number): number {
  if ((inlined & (1 << nibble)) === 0) return -1
  let at = size + MASK_BYTES
  for (let below = inlined & ((1 << nibble) - 1); below !== 0; below &= below - 1)
    at += 1 + raw[at]!
  return at + 1
}

export function inlineOf(parent: Branch | Extension, nibble: number): Bytes | undefined {
  const { raw, size } = parent
  const at = parent.kind === 'branch' ? inlineAt(parent, nibble) : size + MASK_BYTES + 1
  return at === -1 ? undefined : raw.subarray(at, at + raw[at - 1]!)
}

/** After the RLP. */
export const inlineSize = (rows: readonly Bytes[]): number =>
  rows.length === 0 ? 0 : rows.reduce((sum, row) => sum + 1 + row.length, MASK_BYTES)

/** `inlined`: a bit for each row. */
export function writeInline(raw: Bytes, size: number, rows: readonly Bytes[], inlined = 1): void {
  if (rows.length === 0) return
  raw[size] = inlined >> 8
  raw[size + 1] = inlined & 0xff
  let at = size + MASK_BYTES
  for (const row of rows) {
    raw[at] = row.length
    raw.set(row, at + 1)
    at += 1 + row.length
  }
}

/** Where they end, when there are some after a node of this size. */
export function inlineEnd(raw: Bytes, size: number): number {
  let at = size + MASK_BYTES
  for (let rest = inlinedAt(raw, size); rest !== 0 && at < raw.length; rest &= rest - 1)
    at += 1 + raw[at]!
  return at
}
const inlinedAt = (raw: Bytes, size: number): number => (raw[size]! << 8) | raw[size + 1]!

/** The bits, 0 without. @throws {TrieError} when the row ends elsewhere */
export function readInlined(raw: Bytes, size: number): number {
  if (raw.length === size) return 0
  const inlined = inlinedAt(raw, size)
  if (inlined === 0 || inlineEnd(raw, size) !== raw.length)
    throw new TrieError(
      `row of ${raw.length} bytes has a node of ${size} and no whole ones after it`,
    )
  return inlined
}
