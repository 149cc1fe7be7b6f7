/**
 * Cache of stored trie nodes in one buffer, found by their path in the trie. The buffer is a ring
 * that overwrites the oldest node. A node that replaces another one of its length takes over its
 * bytes, so that replaced nodes waste no space. A node that is found in the oldest part is put
 * again. Every node is compared with the requested hash, so that no wrong node is returned. No node
 * is an object that the garbage collector would have to move.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import type { PlainRow } from './patch.ts'

/** A node's name (`nameOf`), and its hash, which is in `source` at `at`. */
export type NodeName = { readonly name: number; readonly source: Bytes; readonly at: number }

export interface NodeCache {
  /** Copies a cached node into memory that `take` gives. */
  copy(node: NodeName, take: (length: number) => Bytes): PlainRow | undefined
  /** Caches a node. Rows of at least 4,096 bytes are left out. */
  put(node: NodeName, row: PlainRow): void
  clear(): void
}

const HASH_BYTES = 32
/** Hash ‖ patches in 4 bits and length in 12. */
const HEAD_BYTES = HASH_BYTES + 2
const LONGEST_ROW = 0xfff
/** Entries of the index that one name may use. */
const WAYS = 4
/** Nodes are more than twice as large, so that the index is half empty. */
const BYTES_PER_ENTRY = 128
/** Oldest share of the ring, which is overwritten next. */
const OLDEST_PART = 1 / 8

/**
 * Name of a node in 32 bits, from `prefix` and the first `depth` nibbles of `key`, at most 16. Two
 * nodes with one name only evict each other.
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

/**
 * Makes a cache.
 * @param size bytes, reserved at once and taken from the system as they fill; below 1,024 nothing
 * is cached
 */
export function createNodeCache(size: number): NodeCache {
  const ring: Bytes = new Uint8Array(size)
  const entries = 2 ** Math.max(2, Math.ceil(Math.log2(size / BYTES_PER_ENTRY + 1)))
  /** Position of a node, in bytes put since the start; −1: the entry is free. */
  const index = new Float64Array(entries).fill(-1)
  const names = new Uint32Array(entries)
  /** Bytes put since the start. A node lives until `size` more bytes were put. */
  let written = 0

  /** The index entry of this name, or −1. */
  const find = (name: number): number => {
    const from = name & (entries - WAYS)
    for (let entry = from; entry < from + WAYS; entry++)
      if (names[entry] === name && index[entry]! >= 0 && index[entry]! >= written - size)
        return entry
    return -1
  }
  /** The index entry whose node was put longest ago. */
  const oldest = (name: number): number => {
    const from = name & (entries - WAYS)
    let best = from
    for (let entry = from + 1; entry < from + WAYS; entry++)
      if (index[entry]! < index[best]!) best = entry
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
    const entry = known >= 0 ? known : oldest(node.name)
    names[entry] = node.name
    index[entry] = written
    written += bytes
  }

  return {
    put: (node, row) => put(find(node.name), node, row),
    copy(node, take) {
      const entry = find(node.name)
      if (entry < 0) return undefined
      const position = index[entry]!
      const from = position % size
      if (!isSame(ring, from, node)) return undefined
      const row = take(lengthAt(position))
      row.set(ring.subarray(from + HEAD_BYTES, from + HEAD_BYTES + row.length))
      const plain = { row, patches: ring[from + HASH_BYTES]! >> 4 }
      if (isOldest(position)) put(entry, node, plain)
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
