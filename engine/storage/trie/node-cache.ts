/**
 * Stored trie nodes in one buffer, found by their place in the trie: a ring that overwrites what was put longest ago. A node that takes
 * the place of another one of its length takes its bytes too: what was replaced is not room lost. What is found in the oldest part is
 * put again. What comes out has the hash that was asked for, so nothing in it is ever wrong, and no node of it is an object that the
 * collector would have to move.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import type { PlainRow } from './patch.ts'

/** A node's name (`nameOf`), and its hash, which stands in `source` at `at`. */
export type NodeName = { readonly name: number; readonly source: Bytes; readonly at: number }

export interface NodeCache {
  /** A copy of the node, in what `take` gives. */
  copy(node: NodeName, take: (length: number) => Bytes): PlainRow | undefined
  /** Rows of at least 4,096 bytes are left out. */
  put(node: NodeName, row: PlainRow): void
  clear(): void
}

const HASH_BYTES = 32
/** Hash ‖ patches in 4 bits and length in 12. */
const HEAD_BYTES = HASH_BYTES + 2
const LONGEST_ROW = 0xfff
/** Places of the index that one name may have. */
const WAYS = 4
/** Nodes are twice as large and more, so that the index is half empty. */
const BYTES_IN_PLACE = 128
/** Of the ring: what is found there would be overwritten next. */
const OLDEST_PART = 1 / 8

/**
 * 32 bits of the first `depth` nibbles of `key`, of 16 at the most, in the trie that `prefix` names. Two nodes that have one are in each
 * other's way, no more.
 */
export function nameOf(prefix: Bytes, key: Bytes, depth: number): number {
  let name = Math.imul(depth + 1, 0x9e37_79b1)
  if (prefix.length > 0) name ^= wordAt(prefix, 0)
  const high = depth >= 8 ? -1 : depth === 0 ? 0 : -1 << (32 - 4 * depth)
  name = Math.imul(name ^ (wordAt(key, 0) & high), 0x85eb_ca6b)
  name ^= name >>> 15
  if (depth > 8) {
    const low = depth >= 16 ? -1 : -1 << (64 - 4 * depth)
    name = Math.imul(name ^ (wordAt(key, 4) & low), 0xc2b2_ae35)
    name ^= name >>> 13
  }
  name = Math.imul(name, 0x27d4_eb2f)
  return (name ^ (name >>> 16)) >>> 0
}

const wordAt = (bytes: Bytes, at: number): number =>
  (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!

/** @param size bytes, reserved at once and taken from the system as they fill; below 1,024 nothing is kept */
export function createNodeCache(size: number): NodeCache {
  const ring: Bytes = new Uint8Array(size)
  const places = 2 ** Math.max(2, Math.ceil(Math.log2(size / BYTES_IN_PLACE + 1)))
  /** Where a node was put, counted in bytes since the beginning; -1: nowhere. */
  const index = new Float64Array(places).fill(-1)
  const names = new Uint32Array(places)
  /** Bytes put since the beginning: a node lives until `size` more were put. */
  let written = 0

  /** The place of a node of this name, or -1. */
  const find = (name: number): number => {
    const from = name & (places - WAYS)
    for (let place = from; place < from + WAYS; place++)
      if (names[place] === name && index[place]! >= 0 && index[place]! >= written - size)
        return place
    return -1
  }
  /** The place whose node was put longest ago. */
  const oldest = (name: number): number => {
    const from = name & (places - WAYS)
    let best = from
    for (let place = from + 1; place < from + WAYS; place++)
      if (index[place]! < index[best]!) best = place
    return best
  }
  const isOldest = (position: number) => position < written - size * (1 - OLDEST_PART)
  const lengthAt = (position: number): number => {
    const at = (position % size) + HASH_BYTES
    return ((ring[at]! & 15) << 8) | ring[at + 1]!
  }
  const put = (known: number, node: NodeName, plain: PlainRow): void => {
    const { row } = plain
    const bytes = HEAD_BYTES + row.length
    if (bytes > size / 2 || row.length > LONGEST_ROW) return
    if (known >= 0) {
      const position = index[known]!
      if (!isOldest(position) && lengthAt(position) === row.length) {
        write(ring, position % size, { node, plain })
        return
      }
    }
    const rest = size - (written % size)
    if (bytes > rest) written += rest
    write(ring, written % size, { node, plain })
    const place = known >= 0 ? known : oldest(node.name)
    names[place] = node.name
    index[place] = written
    written += bytes
  }

  return {
    put: (node, row) => put(find(node.name), node, row),
    copy(node, take) {
      const place = find(node.name)
      if (place < 0) return undefined
      const position = index[place]!
      const from = position % size
      if (!isSame(ring, from, node)) return undefined
      const row = take(lengthAt(position))
      row.set(ring.subarray(from + HEAD_BYTES, from + HEAD_BYTES + row.length))
      const plain = { row, patches: ring[from + HASH_BYTES]! >> 4 }
      if (isOldest(position)) put(place, node, plain)
      return plain
    },
    clear() {
      index.fill(-1)
    },
  }
}

function write(
  ring: Bytes,
  to: number,
  { node, plain }: { readonly node: NodeName; readonly plain: PlainRow },
): void {
  const { source, at } = node
  const { row, patches } = plain
  for (let i = 0; i < HASH_BYTES; i++) ring[to + i] = source[at + i]!
  ring[to + HASH_BYTES] = (patches << 4) | (row.length >> 8)
  ring[to + HASH_BYTES + 1] = row.length & 0xff
  ring.set(row, to + HEAD_BYTES)
}

function isSame(ring: Bytes, from: number, { source, at }: NodeName): boolean {
  for (let i = 0; i < HASH_BYTES; i++) if (ring[from + i] !== source[at + i]) return false
  return true
}
