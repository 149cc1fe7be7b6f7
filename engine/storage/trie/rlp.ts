/** RLP of trie nodes, in place: lists of strings and short lists, all shorter than 2¹⁶ bytes. */
import type { Bytes } from '../../primitives/bytes.ts'
import { bitCount, TrieError } from './node.ts'

/** Start of a list's items. Nodes are shorter than 2¹⁶ bytes. */
export function listStart(raw: Bytes): number {
  const first = raw[0]!
  if (first < 0xc0 || first > 0xf9) throw new TrieError(`node begins with byte ${first}, no list`)
  return first <= 0xf7 ? 1 : first - 0xf7 + 1
}

/** Bytes of the items in a list. */
export const listSize = (raw: Bytes): number => {
  const first = raw[0]!
  if (first <= 0xf7) return first - 0xc0
  return first === 0xf8 ? raw[1]! : (raw[1]! << 8) | raw[2]!
}

/** Bytes of the item at `at`, its prefix included. */
export function itemSize(raw: Bytes, at: number): number {
  const first = raw[at]
  if (first === undefined) throw new TrieError(`node of ${raw.length} bytes is cut short`)
  if (first < 0x80) return 1
  if (first <= 0xb7) return first - 0x7f
  if (first === 0xb8) return raw[at + 1]! + 2
  if (first >= 0xc0 && first <= 0xf7) return first - 0xbf
  throw new TrieError(`node has an item that begins with byte ${first}`)
}

export function stringAt(raw: Bytes, at: number): Bytes {
  const size = itemSize(raw, at)
  if (raw[at]! < 0x80) return raw.subarray(at, at + 1)
  return raw.subarray(at + (raw[at]! <= 0xb7 ? 1 : 2), at + size)
}

export const stringSize = (bytes: Bytes): number =>
  bytes.length === 1 && bytes[0]! < 0x80 ? 1 : bytes.length + (bytes.length <= 55 ? 1 : 2)

/** Writes a string of at most 255 bytes, because values are accounts and slots. */
export function writeString(raw: Bytes, at: number, bytes: Bytes): void {
  if (bytes.length === 1 && bytes[0]! < 0x80) raw[at] = bytes[0]!
  else if (bytes.length <= 55) {
    raw[at] = 0x80 + bytes.length
    raw.set(bytes, at + 1)
  } else {
    raw[at] = 0xb8
    raw[at + 1] = bytes.length
    raw.set(bytes, at + 2)
  }
}

/** Position of a child among the items of a branch whose children are all hashes. */
export const hashAt = (present: number, nibble: number): number =>
  nibble + 32 * bitCount(present & ((1 << nibble) - 1))

export const headSize = (size: number): number => (size <= 55 ? 1 : size <= 255 ? 2 : 3)

export function writeListHead(raw: Bytes, head: number, size: number): void {
  raw[0] = head === 1 ? 0xc0 + size : 0xf6 + head
  if (head === 2) raw[1] = size
  if (head === 3) {
    raw[1] = size >> 8
    raw[2] = size & 0xff
  }
}
