/** Nodes of the Merkle Patricia trie in memory: decoded from their RLP, encoded and hashed once when they change. */
import type { Bytes } from '../primitives/bytes.ts'
import { EMPTY_ROOT, keccak256 } from '../primitives/keccak.ts'
import { encodePath, nibbleAt } from '../primitives/trie-root.ts'

/** Who made a node. Its maker changes it in place, everyone else copies it. */
export type Owner = {
  /** The node is what the database holds at its path. */
  isStored: boolean
}
/** Of nodes read from the database. */
export const STORED: Owner = { isStored: true }

type Common = {
  readonly owner: Owner
  /** RLP. Of a branch or extension that changed since, the RLP before: what it says of children not in memory holds. */
  raw: Bytes
  /** What the parent holds: the hash, or the RLP itself when that is shorter than 32 bytes. undefined: changed since hashed. */
  reference: Bytes | undefined
  /** Epoch of the last use. */
  seen: number
}
export type Branch = Common & {
  readonly kind: 'branch'
  /** Bit per nibble. */
  present: number
  /** In memory; a child that is present and not here is read from the database. Short ones are always here. */
  readonly children: (TrieNode | undefined)[]
}
export type Extension = Common & {
  readonly kind: 'extension'
  /** Nibbles, at least one. */
  readonly path: Bytes
  child: TrieNode | undefined
}
export type Leaf = Common & {
  readonly kind: 'leaf'
  /** All 32 bytes of the hashed key; the node's own path starts at nibble `start`. */
  readonly key: Bytes
  readonly start: number
  readonly value: Bytes
  /** Root of the account's storage trie, when in memory. */
  storage: TrieNode | undefined
}
export type TrieNode = Branch | Extension | Leaf

/** A place in a trie: the first `depth` nibbles of `key`. */
export type Place = { readonly key: Bytes; readonly depth: number }

export const NO_RAW: Bytes = new Uint8Array(0)

export const newBranch = (owner: Owner, seen: number): Branch => ({
  kind: 'branch',
  owner,
  raw: NO_RAW,
  reference: undefined,
  seen,
  present: 0,
  children: new Array<TrieNode | undefined>(16).fill(undefined),
})
export const copyBranch = (branch: Branch, owner: Owner): Branch => ({
  ...branch,
  owner,
  reference: undefined,
  children: branch.children.slice(),
})
/** `above`: where the child is not in memory, `raw` of an extension above it. */
export const newExtension = (
  owner: Owner,
  path: Bytes,
  above: Pick<Extension, 'child' | 'raw' | 'seen'>,
): Extension => ({ kind: 'extension', owner, reference: undefined, path, ...pickAbove(above) })
const pickAbove = ({ child, raw, seen }: Pick<Extension, 'child' | 'raw' | 'seen'>) => ({
  child,
  raw,
  seen,
})
export type Entry = {
  readonly key: Bytes
  readonly value: Bytes
  readonly storage: TrieNode | undefined
}
export const newLeaf = (
  owner: Owner,
  { key, value, storage }: Entry,
  at: { readonly start: number; readonly seen: number },
): Leaf => ({ kind: 'leaf', owner, raw: NO_RAW, reference: undefined, key, value, storage, ...at })

/** A copy of `key` with another nibble at `at`. */
export function withNibble(key: Bytes, at: number, nibble: number): Bytes {
  const copy = key.slice()
  setNibble(copy, at, nibble)
  return copy
}
export function setNibble(key: Bytes, at: number, nibble: number): void {
  const byte = key[at >> 1]!
  key[at >> 1] = at % 2 === 0 ? (byte & 15) | (nibble << 4) : (byte & 0xf0) | nibble
}

/** Storage root in the RLP of an account: the last two items are hashes. */
export const storageRootOf = (account: Bytes): Bytes =>
  account.subarray(account.length - 65, account.length - 33)

/** Hash of a root; EMPTY_ROOT without one. */
export const rootHash = (root: TrieNode | undefined): Bytes =>
  root === undefined ? EMPTY_ROOT : hashNode(root)

/**
 * Computes what changed since the last time, each node once; returns the reference. Roots are never shorter than 32 bytes: a lone
 * leaf has a path of 33.
 */
export function hashNode(node: TrieNode): Bytes {
  if (node.reference !== undefined) return node.reference
  if (node.kind === 'branch') {
    for (const child of node.children)
      if (child !== undefined && child.reference === undefined) hashNode(child)
  } else if (node.kind === 'extension' && node.child !== undefined) hashNode(node.child)
  const raw = encodeNode(node)
  node.raw = raw
  node.reference = raw.length < 32 ? raw : keccak256(raw)
  return node.reference
}

function encodeNode(node: TrieNode): Bytes {
  if (node.kind === 'branch') return encodeBranch(node)
  if (node.kind === 'extension') {
    const reference = node.child?.reference ?? childHash(node, 0)
    return encodePair(packNibbles(node.path), reference, false)
  }
  return encodePair(encodePath(node.key, { start: node.start, end: 64 }, true), node.value, true)
}

/** [path, value]; a child's reference that is a short node stands there as it is. */
function encodePair(path: Bytes, second: Bytes, isValue: boolean): Bytes {
  const pathSize = stringSize(path)
  const size = pathSize + (isValue || second.length === 32 ? stringSize(second) : second.length)
  const head = headSize(size)
  const raw = new Uint8Array(head + size)
  writeListHead(raw, head, size)
  writeString(raw, head, path)
  if (isValue || second.length === 32) writeString(raw, head + pathSize, second)
  else raw.set(second, head + pathSize)
  return raw
}

/** Children in memory by their references, the others as the RLP before the change has them. */
function encodeBranch(branch: Branch): Bytes {
  const { present, children, raw: before } = branch
  const hasBefore = before.length > 0
  const items: (Bytes | undefined)[] = new Array(16)
  let size = 17
  for (let nibble = 0, at = hasBefore ? listStart(before) : 0; nibble < 16; nibble++) {
    const length = hasBefore ? itemSize(before, at) : 0
    if ((present & (1 << nibble)) !== 0) {
      const child = children[nibble]
      const item = child === undefined ? before.subarray(at, at + length) : child.reference!
      items[nibble] = item
      size += item.length === 32 ? 32 : item.length - 1
    }
    at += length
  }
  const head = headSize(size)
  const raw = new Uint8Array(head + size)
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
  return raw
}

/**
 * The node that `raw` encodes. Branch values do not exist: every key has 32 bytes.
 * @throws {TrieError} when it is no node
 */
export function decodeNode(raw: Bytes, place: Place, seen: number): TrieNode {
  const start = listStart(raw)
  const common = { owner: STORED, raw, reference: undefined as Bytes | undefined, seen }
  const second = start + itemSize(raw, start)
  if (second + itemSize(raw, second) !== raw.length) return decodeBranch(raw, place, seen)
  const packed = stringAt(raw, start)
  const isLeaf = (packed[0]! & 0x20) !== 0
  const isOdd = (packed[0]! & 0x10) !== 0
  const length = packed.length * 2 - (isOdd ? 1 : 2)
  if (isLeaf ? place.depth + length !== 64 : length < 1 || place.depth + length > 63)
    throw new TrieError(`node at depth ${place.depth} has a path of ${length} nibbles`)
  if (isLeaf) {
    const key = place.key.slice()
    for (let at = 0; at < length; at++)
      setNibble(key, place.depth + at, nibbleAt(packed, at + (isOdd ? 1 : 2)))
    const value = stringAt(raw, second)
    return { kind: 'leaf', ...common, key, start: place.depth, value, storage: undefined }
  }
  const path = new Uint8Array(length)
  for (let at = 0; at < length; at++) path[at] = nibbleAt(packed, at + (isOdd ? 1 : 2))
  if (raw[second] === 0xa0) return { kind: 'extension', ...common, path, child: undefined }
  const key = place.key.slice()
  path.forEach((nibble, at) => {
    setNibble(key, place.depth + at, nibble)
  })
  const child = decodeShort(raw.slice(second), { key, depth: place.depth + length }, seen)
  return { kind: 'extension', ...common, path, child }
}

function decodeBranch(raw: Bytes, place: Place, seen: number): Branch {
  const branch: Branch = { ...newBranch(STORED, seen), raw }
  let at = listStart(raw)
  for (let nibble = 0; nibble < 16; nibble++) {
    const size = itemSize(raw, at)
    if (raw[at] !== 0x80) {
      branch.present |= 1 << nibble
      if (raw[at] !== 0xa0) {
        const key = withNibble(place.key, place.depth, nibble)
        const short = raw.slice(at, at + size)
        branch.children[nibble] = decodeShort(short, { key, depth: place.depth + 1 }, seen)
      }
    }
    at += size
  }
  if (raw[at] !== 0x80 || at + 1 !== raw.length)
    throw new TrieError(`branch at depth ${place.depth} has a value or bytes too many`)
  return branch
}

function decodeShort(raw: Bytes, place: Place, seen: number): TrieNode {
  const node = decodeNode(raw, place, seen)
  node.reference = raw
  return node
}

/** Hash of a child that is not in memory, from the parent's RLP. */
export function childHash(node: Branch | Extension, nibble: number): Bytes {
  let at = listStart(node.raw)
  const skip = node.kind === 'extension' ? 1 : nibble
  for (let i = 0; i < skip; i++) at += itemSize(node.raw, at)
  return node.raw.subarray(at + 1, at + 33)
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

/** The stored trie is not what its hashes say: the database is damaged, or a rule of ours was broken. */
export class TrieError extends Error {
  override name = 'TrieError'
}
