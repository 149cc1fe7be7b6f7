/**
 * Nodes of the trie as RLP: encoded and hashed once when they change, decoded when they are read.
 */
import { type Bytes, type Slab, take } from '../../primitives/bytes.ts'
import { EMPTY_ROOT, keccak256 } from '../../primitives/keccak.ts'
import { nibbleAt } from '../../primitives/trie-root.ts'
import { decideInline, inlineAt, inlineOf, inlineSize, readInlined, writeInline } from './inline.ts'
import {
  type Branch,
  childAt,
  type Entry,
  type Extension,
  isShort,
  type Leaf,
  lowestBit,
  newBranch,
  newExtension,
  newLeaf,
  rlpOf,
  STORED,
  setLoadedChild,
  TrieError,
  type TrieNode,
} from './node.ts'
import {
  hashAt,
  headSize,
  itemSize,
  listSize,
  listStart,
  stringAt,
  stringSize,
  writeListHead,
  writeString,
} from './rlp.ts'

/**
 * Hash of the root in 32 new bytes; EMPTY_ROOT without a root. A root's RLP has at least 32 bytes,
 * because a lone leaf has a path of 33.
 */
export const rootHash = (root: TrieNode | undefined): Bytes =>
  root === undefined ? EMPTY_ROOT : hashOf(root)

/** Encodes the row of a node. Each changed node below is encoded and hashed once. */
export function encodeNode(node: TrieNode): void {
  if (node.isEncoded) return
  if (node.kind === 'branch') encodeBranch(node)
  else if (node.kind === 'extension') encodeExtension(node)
  node.isEncoded = true
}

function hashOf(node: TrieNode): Bytes {
  encodeNode(node)
  return keccak256(rlpOf(node))
}
/**
 * Reference to the node in its parent: the hash, or the RLP itself if that is shorter than 32
 * bytes.
 */
function referenceOf(node: TrieNode): Bytes {
  encodeNode(node)
  return isShort(node) ? node.raw : keccak256(rlpOf(node))
}

/** Encodes [path, value]. After its first byte the path is whole bytes of the key. */
export function encodeLeaf(
  slab: Slab,
  { key, value }: Pick<Entry, 'key' | 'value'>,
  start: number,
): Bytes {
  const rest = (start + 1) >> 1
  const pathLength = 33 - rest
  const pathSize = pathLength === 1 ? 1 : pathLength + 1
  const size = pathSize + stringSize(value)
  const head = headSize(size)
  const raw = take(slab, head + size)
  writeListHead(raw, head, size)
  let at = head
  if (pathLength > 1) raw[at++] = 0x80 + pathLength
  raw[at++] = start % 2 === 1 ? 0x30 | nibbleAt(key, start) : 0x20
  for (let from = rest; from < 32; from++) raw[at++] = key[from]!
  writeString(raw, at, value)
  return raw
}

/** RLP of the leaf's value. */
export function leafValue({ raw }: Leaf): Bytes {
  const path = listStart(raw)
  return stringAt(raw, path + itemSize(raw, path))
}

/**
 * Full key of a leaf, in new memory.
 * @param way key with the nibbles above the leaf
 */
export function leafKey({ raw, start }: Leaf, way: Bytes): Bytes {
  const key = way.slice()
  const path = pathStart(raw)
  if (start % 2 === 1) key[start >> 1] = (key[start >> 1]! & 0xf0) | (raw[path]! & 15)
  for (let from = (start + 1) >> 1, at = path + 1; from < 32; from++, at++) key[from] = raw[at]!
  return key
}

/**
 * Whether a leaf has this key.
 * @param key shares the nibbles above the leaf
 */
export function isLeafOf({ raw, start }: Leaf, key: Bytes): boolean {
  const path = pathStart(raw)
  if (start % 2 === 1 && (raw[path]! & 15) !== (key[start >> 1]! & 15)) return false
  for (let from = (start + 1) >> 1, at = path + 1; from < 32; from++, at++)
    if (raw[at] !== key[from]) return false
  return true
}

/** Start of the path's bytes; the byte with the flags comes first. */
function pathStart(raw: Bytes): number {
  const start = listStart(raw)
  return raw[start]! < 0x80 ? start : start + 1
}

/** Encodes [path, child]. A short child is part of the RLP. */
function encodeExtension(extension: Extension): void {
  const { child } = extension
  const path = packNibbles(extension.path)
  const reference = child === undefined ? childHash(extension, 0) : referenceOf(child)
  const pathSize = stringSize(path)
  const bytes = pathSize + (reference.length === 32 ? 33 : reference.length)
  const head = headSize(bytes)
  const size = head + bytes
  const inline = child !== undefined && decideInline(extension, child) ? [child.raw] : []
  const raw = take(extension.owner.slab, size + inlineSize(inline))
  writeListHead(raw, head, bytes)
  writeString(raw, head, path)
  if (reference.length === 32) writeString(raw, head + pathSize, reference)
  else raw.set(reference, head + pathSize)
  writeInline(raw, size, inline)
  extension.raw = raw
  extension.size = size
}

/**
 * Updates the row of a branch. If no child was added or removed, only changed bytes are written.
 */
function encodeBranch(branch: Branch): void {
  const { present, stale } = branch
  let isPatch = branch.hashed === present
  for (let rest = stale & present; rest !== 0; rest &= rest - 1) {
    const nibble = lowestBit(rest)
    const child = childAt(branch, nibble)!
    encodeNode(child)
    const isInline = decideInline(branch, child)
    if (isShort(child)) isPatch = false
    else if (isPatch) {
      const at = inlineAt(branch, nibble)
      isPatch = isInline ? at !== -1 && branch.raw[at - 1] === child.raw.length : at === -1
    }
  }
  if (isPatch) {
    patchBranch(branch)
    if (branch.changed !== -1) branch.changed |= stale
  } else {
    rebuildBranch(branch)
    branch.changed = -1
  }
  branch.stale = 0
  branch.isRawOwn = true
}

/**
 * Writes changed children into the row. All children are hashes, and inline rows have their old
 * lengths.
 */
function patchBranch(branch: Branch): void {
  if (!branch.isRawOwn) {
    const own = take(branch.owner.slab, branch.raw.length)
    own.set(branch.raw)
    branch.raw = own
  }
  const { raw, present } = branch
  const start = listStart(raw)
  for (let rest = branch.stale; rest !== 0; rest &= rest - 1) {
    const nibble = lowestBit(rest)
    const child = childAt(branch, nibble)!
    raw.set(keccak256(rlpOf(child)), start + hashAt(present, nibble) + 1)
    if (child.isInline) raw.set(child.raw, inlineAt(branch, nibble))
  }
}

/** Rebuilds the row: changed children by their new references, the others from the old RLP. */
function rebuildBranch(branch: Branch): void {
  const { present, stale, raw: before } = branch
  const hasBefore = before.length > 0
  /** RLP items of the children. A new hash has no prefix yet. */
  const items: (Bytes | undefined)[] = new Array(16)
  const inline: Bytes[] = []
  let inlined = 0
  let bytes = 17
  let isHashed = true
  for (let nibble = 0, at = hasBefore ? listStart(before) : 0; nibble < 16; nibble++) {
    const length = hasBefore ? itemSize(before, at) : 0
    const bit = 1 << nibble
    if ((present & bit) !== 0) {
      const isStale = (stale & bit) !== 0
      const child = isStale ? childAt(branch, nibble)! : undefined
      const item = child ? referenceOf(child) : before.subarray(at, at + length)
      items[nibble] = item
      const isHash = isStale ? item.length === 32 : before[at] === 0xa0
      isHashed &&= isHash
      bytes += isHash ? 32 : item.length - 1
      const row = child ? inlineRow(child) : inlineOf(branch, nibble)
      if (row !== undefined) {
        inlined |= bit
        inline.push(row)
      }
    }
    at += length
  }
  const head = headSize(bytes)
  const size = head + bytes
  const raw = take(branch.owner.slab, size + inlineSize(inline))
  writeListHead(raw, head, bytes)
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
  writeInline(raw, size, inline, inlined)
  branch.raw = raw
  branch.size = size
  branch.inlined = inlined
  branch.hashed = isHashed ? present : -1
}

const inlineRow = (node: TrieNode): Bytes | undefined => (node.isInline ? node.raw : undefined)

/**
 * Decodes the node of a row. Branches have no values, because every key has 32 bytes.
 * @throws {TrieError} if the row is no node of this depth
 */
export function decodeNode(raw: Bytes, depth: number): TrieNode {
  const start = listStart(raw)
  const size = start + listSize(raw)
  const second = start + itemSize(raw, start)
  if (second + itemSize(raw, second) !== size) return decodeBranch(raw, { start, size, depth })
  const packed = stringAt(raw, start)
  const isLeaf = (packed[0]! & 0x20) !== 0
  const isOdd = (packed[0]! & 0x10) !== 0
  const length = packed.length * 2 - (isOdd ? 1 : 2)
  if (isLeaf ? depth + length !== 64 : length < 1 || depth + length > 63)
    throw new TrieError(`node at depth ${depth} has a path of ${length} nibbles`)
  const inlined = readInlined(raw, size)
  if (inlined !== (isLeaf ? 0 : inlined & 1)) throw new TrieError(`row of depth ${depth} goes on`)
  if (isLeaf) return newLeaf(STORED, raw, { start: depth, storage: undefined })
  const path = new Uint8Array(length)
  for (let at = 0; at < length; at++) path[at] = nibbleAt(packed, at + (isOdd ? 1 : 2))
  const extension = newExtension(STORED, path, { child: undefined, raw })
  extension.size = size
  extension.isEncoded = true
  const below = depth + length
  if (raw[second] !== 0xa0) extension.child = decodeNode(raw.slice(second, size), below)
  else if (inlined !== 0) extension.child = decodeInline(extension, 0, below)
  return extension
}

function decodeBranch(
  raw: Bytes,
  { start, size, depth }: { readonly start: number; readonly size: number; readonly depth: number },
): Branch {
  const branch = newBranch(STORED)
  branch.raw = raw
  branch.size = size
  branch.isEncoded = true
  branch.changed = 0
  let isHashed = true
  let at = start
  for (let nibble = 0; nibble < 16; nibble++) {
    const bytes = itemSize(raw, at)
    if (raw[at] !== 0x80) {
      branch.present |= 1 << nibble
      if (raw[at] !== 0xa0) {
        setLoadedChild(branch, nibble, decodeNode(raw.slice(at, at + bytes), depth + 1))
        isHashed = false
      }
    }
    at += bytes
  }
  if (raw[at] !== 0x80 || at + 1 !== size)
    throw new TrieError(`branch at depth ${depth} has a value or bytes too many`)
  branch.hashed = isHashed ? branch.present : -1
  branch.inlined = readInlined(raw, size)
  if ((branch.inlined & ~branch.present) !== 0)
    throw new TrieError(`branch at depth ${depth} has no child for a node in its row`)
  return branch
}

/**
 * Hash of a row's node.
 * @throws {TrieError} when the row starts with no list
 */
export function hashOfRow(raw: Bytes): Bytes {
  const size = listStart(raw) + listSize(raw)
  return keccak256(size === raw.length ? raw : raw.subarray(0, size))
}

/**
 * Decodes an inline child from its parent's row, and links it to the parent; undefined for another
 * child.
 * @throws {TrieError} for another hash
 */
export function inlineChild(parent: Branch, nibble: number, depth: number): TrieNode | undefined {
  if ((parent.inlined & (1 << nibble)) === 0) return undefined
  const child = decodeInline(parent, nibble, depth)
  setLoadedChild(parent, nibble, child)
  return child
}

function decodeInline(parent: Branch | Extension, nibble: number, depth: number): TrieNode {
  const row = inlineOf(parent, nibble)!
  if (!isHashAt(parent.raw, childHashAt(parent, nibble), hashOfRow(row)))
    throw new TrieError(`the node at depth ${depth} in its parent's row is another`)
  const child = decodeNode(row, depth)
  child.isInline = true
  return child
}

/** Whether `raw` has the hash at this position. */
export const isHashAt = (raw: Bytes, at: number, hash: Bytes): boolean => {
  for (let i = 0; i < 32; i++) if (raw[at + i] !== hash[i]) return false
  return true
}

/** Hash of a child that is not in memory, from the parent's RLP. */
export function childHash(node: Branch | Extension, nibble: number): Bytes {
  const at = childHashAt(node, nibble)
  return node.raw.subarray(at, at + 32)
}

/** Position of a child's hash in `raw`. */
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

function packNibbles(path: Bytes): Bytes {
  const isOdd = path.length % 2 === 1
  const packed = new Uint8Array((path.length >> 1) + 1)
  packed[0] = isOdd ? 0x10 | path[0]! : 0
  for (let to = 1, at = isOdd ? 1 : 0; to < packed.length; to++, at += 2)
    packed[to] = (path[at]! << 4) | path[at + 1]!
  return packed
}
