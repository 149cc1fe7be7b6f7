/** Nodes of the trie as RLP: encoded and hashed once when they change, decoded when they are read. */
import type { Bytes } from '../primitives/bytes.ts'
import { EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { nibbleAt } from '../primitives/trie-root.ts'
import { newSlab, take } from './slab.ts'
import {
  type Branch,
  type Extension,
  keepChild,
  type Leaf,
  newBranch,
  newExtension,
  newLeaf,
  STORED,
  TrieError,
  type TrieNode,
} from './trie-node.ts'

/** 32 bytes, new at each call; EMPTY_ROOT without a root. Roots are never shorter than 32 bytes: a lone leaf has a path of 33. */
export const rootHash = (root: TrieNode | undefined): Bytes =>
  root === undefined ? EMPTY_ROOT : keccak256(encodeNode(root))

/** The node as RLP; what changed since the last time is encoded and hashed, each node once. */
export function encodeNode(node: TrieNode): Bytes {
  if (node.isEncoded) return node.raw
  if (node.kind === 'branch') encodeBranch(node)
  else if (node.kind === 'extension')
    node.raw = encodeExtension(
      packNibbles(node.path),
      node.child === undefined ? childHash(node, 0) : referenceOf(node.child),
    )
  node.isEncoded = true
  return node.raw
}

/** What a parent holds: the hash, or the RLP itself when that is shorter than 32 bytes. */
function referenceOf(node: TrieNode): Bytes {
  const raw = encodeNode(node)
  return raw.length < 32 ? raw : keccak256(raw)
}

// Blocks are small, because a node that stays in memory keeps the whole of its own.
const NODES = newSlab(4_096)

/** Bytes, all zero, for a node to hold. */
export const newBytes = (length: number): Bytes => take(NODES, length)

export function copyForNode(bytes: Bytes): Bytes {
  const copy = newBytes(bytes.length)
  copy.set(bytes)
  return copy
}

/** [path, value]: what follows the first byte of the path is whole bytes of the key. */
export function encodeLeaf(key: Bytes, start: number, value: Bytes): Bytes {
  const rest = (start + 1) >> 1
  const pathLength = 33 - rest
  const pathSize = pathLength === 1 ? 1 : pathLength + 1
  const size = pathSize + stringSize(value)
  const head = headSize(size)
  const raw = newBytes(head + size)
  writeListHead(raw, head, size)
  let at = head
  if (pathLength > 1) raw[at++] = 0x80 + pathLength
  raw[at++] = start % 2 === 1 ? 0x30 | nibbleAt(key, start) : 0x20
  for (let from = rest; from < 32; from++) raw[at++] = key[from]!
  writeString(raw, at, value)
  return raw
}

/** RLP of what the leaf holds. */
export function leafValue({ raw }: Leaf): Bytes {
  const path = listStart(raw)
  return stringAt(raw, path + itemSize(raw, path))
}

/** The whole key of a leaf, for its holder to keep; `way` has the nibbles above the leaf. */
export function leafKey({ raw, start }: Leaf, way: Bytes): Bytes {
  const key = way.slice()
  const path = pathStart(raw)
  if (start % 2 === 1) key[start >> 1] = (key[start >> 1]! & 0xf0) | (raw[path]! & 15)
  for (let from = (start + 1) >> 1, at = path + 1; from < 32; from++, at++) key[from] = raw[at]!
  return key
}

/** `key` shares the nibbles above the leaf. */
export function isLeafOf({ raw, start }: Leaf, key: Bytes): boolean {
  const path = pathStart(raw)
  if (start % 2 === 1 && (raw[path]! & 15) !== (key[start >> 1]! & 15)) return false
  for (let from = (start + 1) >> 1, at = path + 1; from < 32; from++, at++)
    if (raw[at] !== key[from]) return false
  return true
}

/** Where the bytes of the path begin, the one with its flags first. */
function pathStart(raw: Bytes): number {
  const start = listStart(raw)
  return raw[start]! < 0x80 ? start : start + 1
}

/** [path, child]; a child's reference that is a short node stands there as it is. */
function encodeExtension(path: Bytes, child: Bytes): Bytes {
  const pathSize = stringSize(path)
  const size = pathSize + (child.length === 32 ? 33 : child.length)
  const head = headSize(size)
  const raw = newBytes(head + size)
  writeListHead(raw, head, size)
  writeString(raw, head, path)
  if (child.length === 32) writeString(raw, head + pathSize, child)
  else raw.set(child, head + pathSize)
  return raw
}

/** Brings `raw` up to date. Where no child came or went, only the hashes that changed are written. */
function encodeBranch(branch: Branch): void {
  const { present, stale, children } = branch
  let isHashed = branch.hashed === present
  for (let rest = stale & present; rest !== 0; rest &= rest - 1)
    if (encodeNode(children[lowestBit(rest)]!).length < 32) isHashed = false
  if (isHashed) patchBranch(branch)
  else rebuildBranch(branch)
  branch.stale = 0
  branch.isRawOwn = true
}

/** The same children, all by their hashes. */
function patchBranch(branch: Branch): void {
  if (!branch.isRawOwn) branch.raw = copyForNode(branch.raw)
  const { raw, present, children } = branch
  const start = listStart(raw)
  for (let rest = branch.stale; rest !== 0; rest &= rest - 1) {
    const nibble = lowestBit(rest)
    raw.set(keccak256(children[nibble]!.raw), start + hashAt(present, nibble) + 1)
  }
}

/** Children that changed by their references, the others as the RLP before has them. */
function rebuildBranch(branch: Branch): void {
  const { present, stale, children, raw: before } = branch
  const hasBefore = before.length > 0
  /** Hashes with their prefix. */
  const items: (Bytes | undefined)[] = new Array(16)
  let size = 17
  let isHashed = true
  for (let nibble = 0, at = hasBefore ? listStart(before) : 0; nibble < 16; nibble++) {
    const length = hasBefore ? itemSize(before, at) : 0
    const bit = 1 << nibble
    if ((present & bit) !== 0) {
      const isStale = (stale & bit) !== 0
      const item = isStale ? referenceOf(children[nibble]!) : before.subarray(at, at + length)
      items[nibble] = item
      const isHash = isStale ? item.length === 32 : before[at] === 0xa0
      isHashed &&= isHash
      size += isHash ? 32 : item.length - 1
    }
    at += length
  }
  const head = headSize(size)
  const raw = newBytes(head + size)
  writeListHead(raw, head, size)
  let to = head
  for (let nibble = 0; nibble < 16; nibble++) {
    const item = items[nibble]
    if (item === undefined) raw[to++] = 0x80
    else {
      if (item.length === 32) raw[to++] = 0xa0
      raw.set(item, to)
      to += item.length
    }
  }
  raw[to] = 0x80
  branch.raw = raw
  branch.hashed = isHashed ? present : -1
}

/** Where a child stands among the items of a branch whose children are all hashes. */
const hashAt = (present: number, nibble: number): number =>
  nibble + 32 * bitCount(present & ((1 << nibble) - 1))

const lowestBit = (mask: number): number => 31 - Math.clz32(mask & -mask)

/** Of 16 bits. */
export function bitCount(mask: number): number {
  let count = mask - ((mask >> 1) & 0x5555)
  count = (count & 0x3333) + ((count >> 2) & 0x3333)
  count = (count + (count >> 4)) & 0x0f0f
  return (count + (count >> 8)) & 0x1f
}

/**
 * The node that `raw` encodes. Branch values do not exist: every key has 32 bytes.
 * @throws {TrieError} when it is no node of this depth
 */
export function decodeNode(raw: Bytes, depth: number): TrieNode {
  const start = listStart(raw)
  const second = start + itemSize(raw, start)
  if (second + itemSize(raw, second) !== raw.length) return decodeBranch(raw, depth)
  const packed = stringAt(raw, start)
  const isLeaf = (packed[0]! & 0x20) !== 0
  const isOdd = (packed[0]! & 0x10) !== 0
  const length = packed.length * 2 - (isOdd ? 1 : 2)
  if (isLeaf ? depth + length !== 64 : length < 1 || depth + length > 63)
    throw new TrieError(`node at depth ${depth} has a path of ${length} nibbles`)
  if (isLeaf) return newLeaf(STORED, raw, { start: depth, storage: undefined })
  const path = new Uint8Array(length)
  for (let at = 0; at < length; at++) path[at] = nibbleAt(packed, at + (isOdd ? 1 : 2))
  const extension = newExtension(STORED, path, { child: undefined, raw })
  extension.isEncoded = true
  if (raw[second] !== 0xa0) extension.child = decodeNode(raw.slice(second), depth + length)
  return extension
}

function decodeBranch(raw: Bytes, depth: number): Branch {
  const branch = newBranch(STORED)
  branch.raw = raw
  branch.isEncoded = true
  let isHashed = true
  let at = listStart(raw)
  for (let nibble = 0; nibble < 16; nibble++) {
    const size = itemSize(raw, at)
    if (raw[at] !== 0x80) {
      branch.present |= 1 << nibble
      if (raw[at] !== 0xa0) {
        keepChild(branch, nibble, decodeNode(raw.slice(at, at + size), depth + 1))
        isHashed = false
      }
    }
    at += size
  }
  if (raw[at] !== 0x80 || at + 1 !== raw.length)
    throw new TrieError(`branch at depth ${depth} has a value or bytes too many`)
  branch.hashed = isHashed ? branch.present : -1
  return branch
}

/** Hash of a child that is not in memory, from the parent's RLP. */
export function childHash(node: Branch | Extension, nibble: number): Bytes {
  const at = childHashAt(node, nibble)
  return node.raw.subarray(at, at + 32)
}

/** Where in `raw` it stands. */
export function childHashAt(node: Branch | Extension, nibble: number): number {
  const { raw } = node
  let at = listStart(raw)
  if (node.kind === 'extension') at += itemSize(raw, at)
  else if (node.hashed !== -1) at += hashAt(node.hashed, nibble)
  else for (let i = 0; i < nibble; i++) at += itemSize(raw, at)
  return at + 1
}

/** RLP of a branch whose only child has this hash. */
export function rawBranch(nibble: number, hash: Bytes): Bytes {
  const raw = new Uint8Array(headSize(49) + 49).fill(0x80)
  writeListHead(raw, headSize(49), 49)
  raw[headSize(49) + nibble] = 0xa0
  raw.set(hash, headSize(49) + nibble + 1)
  return raw
}

/** Where the items of a list begin. Nodes are shorter than 2¹⁶ bytes. */
function listStart(raw: Bytes): number {
  const first = raw[0]!
  if (first < 0xc0 || first > 0xf9) throw new TrieError(`node begins with byte ${first}, no list`)
  return first <= 0xf7 ? 1 : first - 0xf7 + 1
}

/** Bytes of the item at `at`, its prefix included. */
function itemSize(raw: Bytes, at: number): number {
  const first = raw[at]
  if (first === undefined) throw new TrieError(`node of ${raw.length} bytes is cut short`)
  if (first < 0x80) return 1
  if (first <= 0xb7) return first - 0x7f
  if (first === 0xb8) return raw[at + 1]! + 2
  if (first >= 0xc0 && first <= 0xf7) return first - 0xbf
  throw new TrieError(`node has an item that begins with byte ${first}`)
}

function stringAt(raw: Bytes, at: number): Bytes {
  const size = itemSize(raw, at)
  if (raw[at]! < 0x80) return raw.subarray(at, at + 1)
  return raw.subarray(at + (raw[at]! <= 0xb7 ? 1 : 2), at + size)
}

const stringSize = (bytes: Bytes): number =>
  bytes.length === 1 && bytes[0]! < 0x80 ? 1 : bytes.length + (bytes.length <= 55 ? 1 : 2)

/** Values are accounts and slots: at most 255 bytes. */
function writeString(raw: Bytes, at: number, bytes: Bytes): void {
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

const headSize = (size: number): number => (size <= 55 ? 1 : size <= 255 ? 2 : 3)

function writeListHead(raw: Bytes, head: number, size: number): void {
  raw[0] = head === 1 ? 0xc0 + size : 0xf6 + head
  if (head === 2) raw[1] = size
  if (head === 3) {
    raw[1] = size >> 8
    raw[2] = size & 0xff
  }
}

function packNibbles(path: Bytes): Bytes {
  const isOdd = path.length % 2 === 1
  const packed = new Uint8Array((path.length >> 1) + 1)
  packed[0] = isOdd ? 0x10 | path[0]! : 0
  for (let to = 1, at = isOdd ? 1 : 0; to < packed.length; to++, at += 2)
    packed[to] = (path[at]! << 4) | path[at + 1]!
  return packed
}
