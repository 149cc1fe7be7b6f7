/**
 * Small nodes inside the row of their parent. Branches of two or three leaves are half of the nodes
 * that a random update would read. They are a fifth of those it would write. The parent's RLP is
 * followed by a bit per nibble (2 bytes) for its inline children. Then each bit, from the lowest,
 * has length (1) ‖ row. Whether a node is inline depends on the node alone, so that a trie has one
 * form. Rows of older versions have no inline nodes and are read alike.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { type Branch, type Extension, isShort, TrieError, type TrieNode } from './node.ts'

/**
 * Largest inline row: a branch of three children, or of two below an extension. Leaves always have
 * rows of their own, because they are half of the written nodes.
 */
const INLINE_BYTES = 128
const MASK_BYTES = 2

/** Decides whether an encoded child is inline. A child of another owner stays as it is. */
export function decideInline({ owner }: Branch | Extension, child: TrieNode): boolean {
  if (child.owner === owner)
    child.isInline = child.kind !== 'leaf' && !isShort(child) && child.raw.length <= INLINE_BYTES
  return child.isInline
}

/** Whether a node will be inline below a parent of the same owner. */
export const isSmall = (node: TrieNode): boolean =>
  node.kind !== 'leaf' && node.raw.length <= INLINE_BYTES

/** Start of an inline child's row, after its length byte; −1 if the child is not inline. */
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

/** Bytes of the inline nodes after the RLP. */
export const inlineSize = (rows: readonly Bytes[]): number =>
  rows.length === 0 ? 0 : rows.reduce((sum, row) => sum + 1 + row.length, MASK_BYTES)

/**
 * Writes inline nodes after the RLP.
 * @param inlined a bit for each row
 */
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

/** End of the inline nodes after a node of this size, which has some. */
export function inlineEnd(raw: Bytes, size: number): number {
  let at = size + MASK_BYTES
  for (let rest = inlinedAt(raw, size); rest !== 0 && at < raw.length; rest &= rest - 1)
    at += 1 + raw[at]!
  return at
}
const inlinedAt = (raw: Bytes, size: number): number => (raw[size]! << 8) | raw[size + 1]!

/**
 * Bits of the inline children; 0 if there are none.
 * @throws {TrieError} when the row has another end
 */
export function readInlined(raw: Bytes, size: number): number {
  if (raw.length === size) return 0
  const inlined = inlinedAt(raw, size)
  if (inlined === 0 || inlineEnd(raw, size) !== raw.length)
    throw new TrieError(
      `row of ${raw.length} bytes has a node of ${size} and no whole ones after it`,
    )
  return inlined
}
