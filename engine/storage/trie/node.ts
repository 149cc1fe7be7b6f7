/** Nodes of the Merkle Patricia trie in memory. */
import { type Bytes, NO_BYTES, newSlab, type Slab } from '../../primitives/bytes.ts'

/** Maker of nodes. The maker changes them in place; every other owner copies them. */
export type Owner = {
  /** The database has the nodes at their paths. */
  isStored: boolean
  /** Memory of the nodes' rows. */
  readonly slab: Slab
}
export const newOwner = (slab: Slab): Owner => ({ isStored: false, slab })
/** Owner of nodes read from the database. They are never changed, so the slab is empty. */
export const STORED: Owner = { isStored: true, slab: Object.freeze(newSlab(0)) }

/**
 * Memory for the rows of a trie's nodes. The blocks are small, because a node in memory retains its
 * block.
 */
export const newNodeSlab = (): Slab => newSlab(16_384)

type Common = {
  readonly owner: Owner
  /**
   * Row: RLP of `size` bytes, then the inline nodes below (`inline.ts`). A changed branch or
   * extension has the row before, which still describes children that are not in memory.
   */
  raw: Bytes
  size: number
  /**
   * The node has no row of its own. It is part of its parent's row, as of the last encoding or
   * read.
   */
  isInline: boolean
  /**
   * `raw` is up to date. The parent's reference to the node, usually a hash, is only in the
   * parent's RLP.
   */
  isEncoded: boolean
  /**
   * Row at this path before the maker's version; undefined if there was none, or it is unknown
   * here.
   */
  previous: Bytes | undefined
}
export type Branch = Common & {
  readonly kind: 'branch'
  /** Bit per nibble. */
  present: number
  /** Bit per child that changed since `raw` was made. */
  stale: number
  /** Bit per child that is inline in `raw`. */
  inlined: number
  /** `present` as of `raw`, if every child is in there by its hash; otherwise −1. */
  hashed: number
  /** No other node shares `raw`, so that it can be changed in place. */
  isRawOwn: boolean
  /**
   * Bit per child that differs between `raw` and `previous`, or the row in the database. −1 where
   * every byte may differ.
   */
  changed: number
  /** Patches of the row before those changes (`patchesAfter`). */
  patches: number
  /** Bit per child in memory. */
  loaded: number
  /**
   * Children in memory, by nibble (`childAt`). Short ones are always here, others may have to be
   * read. Set by `setLoadedChild`.
   */
  children: readonly TrieNode[]
}
export type Extension = Common & {
  readonly kind: 'extension'
  /** Nibbles, at least one. */
  readonly path: Bytes
  /** Always in memory if it is short or inline. */
  child: TrieNode | undefined
}
export type Leaf = Common & {
  readonly kind: 'leaf'
  /**
   * Nibble of the hashed key where the node's own path starts. `leafKey` and `leafValue` read
   * `raw`.
   */
  readonly start: number
  /** Root of the account's storage trie, when in memory. */
  storage: TrieNode | undefined
}
export type TrieNode = Branch | Extension | Leaf

/** Path of a node in a trie: the first `depth` nibbles of `key`. */
export type NodePath = { readonly key: Bytes; readonly depth: number }

/**
 * Most branches have at most one child in memory. An array of 16 would be a third of such a branch.
 */
const NO_CHILDREN: readonly TrieNode[] = Object.freeze([])

// Nodes of a kind have their fields in one order, so that V8 has one hidden class per kind.
export const newBranch = (owner: Owner): Branch => ({
  kind: 'branch',
  owner,
  raw: NO_BYTES,
  size: 0,
  isInline: false,
  isEncoded: false,
  previous: undefined,
  present: 0,
  stale: 0,
  inlined: 0,
  hashed: -1,
  isRawOwn: false,
  changed: -1,
  patches: 0,
  loaded: 0,
  children: NO_CHILDREN,
})
/**
 * Copies a branch for a new owner. The copy of a stored branch takes over its children in memory,
 * and the stored branch reads them again.
 */
export function copyBranch(
  from: Branch,
  owner: Owner,
  { previous, patches }: Pick<Branch, 'previous' | 'patches'>,
): Branch {
  const { raw, size, present, stale, inlined, hashed, loaded } = from
  const isTaken = from.owner.isStored && hashed === present
  const children = isTaken || loaded === 0 ? from.children : from.children.slice()
  if (isTaken) {
    from.loaded = 0
    from.children = NO_CHILDREN
  }
  return {
    kind: 'branch',
    owner,
    raw,
    size,
    isInline: false,
    isEncoded: false,
    previous,
    present,
    stale,
    inlined,
    hashed,
    isRawOwn: false,
    changed: from.isEncoded ? 0 : -1,
    patches,
    loaded,
    children,
  }
}
/**
 * Makes an extension. If the child is not in memory, `raw` is that of an extension above the child.
 */
export const newExtension = (
  owner: Owner,
  path: Bytes,
  { child, raw }: Pick<Extension, 'child' | 'raw'>,
): Extension => ({
  kind: 'extension',
  owner,
  raw,
  size: 0,
  isInline: false,
  isEncoded: false,
  previous: undefined,
  path,
  child,
})
export type Entry = {
  readonly key: Bytes
  readonly value: Bytes
  readonly storage: TrieNode | undefined
}
/** Makes a leaf; `raw` is its RLP. */
export const newLeaf = (
  owner: Owner,
  raw: Bytes,
  { start, storage, previous }: Pick<Leaf, 'start' | 'storage'> & Partial<Pick<Leaf, 'previous'>>,
): Leaf => ({
  kind: 'leaf',
  owner,
  raw,
  size: raw.length,
  isInline: false,
  isEncoded: true,
  previous,
  start,
  storage,
})

export const childAt = ({ loaded, children }: Branch, nibble: number): TrieNode | undefined =>
  (loaded & (1 << nibble)) === 0 ? undefined : children[bitCount(loaded & ((1 << nibble) - 1))]

/** Links or unlinks a child in memory; the child itself stays the same. */
export function setLoadedChild(
  parent: Branch | Extension,
  nibble: number,
  child: TrieNode | undefined,
): void {
  if (parent.kind === 'extension') {
    parent.child = child
    return
  }
  const { loaded, children } = parent
  const bit = 1 << nibble
  const at = bitCount(loaded & (bit - 1))
  if (child === undefined) {
    if ((loaded & bit) === 0) return
    parent.children = children.toSpliced(at, 1)
    parent.loaded = loaded & ~bit
  } else if ((loaded & bit) !== 0) {
    const own = children as TrieNode[]
    own[at] = child
  } else {
    // A push would reserve space for 16 more.
    const more = new Array<TrieNode>(children.length + 1)
    for (let i = 0; i < at; i++) more[i] = children[i]!
    more[at] = child
    for (let i = at; i < children.length; i++) more[i + 1] = children[i]!
    parent.children = more
    parent.loaded = loaded | bit
  }
}

/** Number of bits set in 16 bits. */
export function bitCount(mask: number): number {
  let count = mask - ((mask >> 1) & 0x5555)
  count = (count & 0x3333) + ((count >> 2) & 0x3333)
  count = (count + (count >> 4)) & 0x0f0f
  return (count + (count >> 8)) & 0x1f
}

export const lowestBit = (mask: number): number => 31 - Math.clz32(mask & -mask)

/** Drops references to nodes that can be read again. The nodes are encoded. */
export function unlink(node: TrieNode): void {
  if (node.kind === 'leaf') node.storage = undefined
  else if (node.kind === 'extension') {
    if (node.child?.isInline) unlink(node.child)
    else if (node.child !== undefined && !isShort(node.child)) node.child = undefined
  } else if (node.hashed === node.present) {
    node.loaded = 0
    node.children = NO_CHILDREN
  } else
    for (let nibble = 0; nibble < 16; nibble++) {
      const child = childAt(node, nibble)
      if (child !== undefined && !isShort(child)) setLoadedChild(node, nibble, undefined)
    }
}

/** Whether the parent contains the node's RLP instead of its hash. */
export const isShort = ({ size }: TrieNode): boolean => size < 32
/** Whether the node has a row of its own. Other nodes are part of their parent's row. */
export const hasRow = (node: TrieNode): boolean => !isShort(node) && !node.isInline
/** RLP of the node, which its parent refers to. */
export const rlpOf = ({ raw, size }: TrieNode): Bytes =>
  raw.length === size ? raw : raw.subarray(0, size)

/** Replaces a child by another node, and marks the branch as changed. */
export function setChild(branch: Branch, nibble: number, child: TrieNode | undefined): void {
  setLoadedChild(branch, nibble, child)
  if (child === undefined) branch.present &= ~(1 << nibble)
  else branch.present |= 1 << nibble
  branch.stale |= 1 << nibble
  branch.isEncoded = false
}

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

/** Storage root in the RLP of an account, whose last two items are hashes. */
export const storageRootOf = (account: Bytes): Bytes =>
  account.subarray(storageRootIn(account), account.length - 33)
/**
 * Position of the storage root in the RLP of an account, or of its leaf, which ends with the
 * account.
 */
export const storageRootIn = ({ length }: Bytes): number => length - 65

/** The stored trie contradicts its hashes: the database is damaged, or flashnode has a bug. */
export class TrieError extends Error {
  override name = 'TrieError'
}
