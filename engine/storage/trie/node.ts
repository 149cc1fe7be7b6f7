/** Nodes of the Merkle Patricia trie in memory. */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { newSlab, type Slab } from '../../primitives/slab.ts'

/** Who made a node. Its maker changes it in place, everyone else copies it. */
export type Owner = {
  /** The node is what the database holds at its path. */
  isStored: boolean
  /** What its rows are cut from. */
  readonly slab: Slab
}
export const newOwner = (slab: Slab): Owner => ({ isStored: false, slab })
/** Of nodes read from the database: nobody changes them, so no row of theirs is ever made. */
export const STORED: Owner = { isStored: true, slab: Object.freeze(newSlab(0)) }

/** For the rows of a trie's nodes. Its blocks are small, because a node that stays in memory keeps the whole of its own. */
export const newNodeSlab = (): Slab => newSlab(16_384)

type Common = {
  readonly owner: Owner
  /**
   * The row: RLP, of `size` bytes, and the inline nodes below it (`trie-inline.ts`). Of a branch or extension that changed since, the
   * row before: what it says of children not in memory holds.
   */
  raw: Bytes
  size: number
  /** It has no row: it stands in that of its parent, as it was when that was encoded or read. */
  isInline: boolean
  /** `raw` is what the node is now. What the parent holds of it, its hash as a rule, stands in the parent's RLP only. */
  isEncoded: boolean
  /** RLP of the row that was at this place before its maker's version; undefined where there was none, or it is not known here. */
  previous: Bytes | undefined
}
export type Branch = Common & {
  readonly kind: 'branch'
  /** Bit per nibble. */
  present: number
  /** Bit per child that changed since `raw` was made. */
  stale: number
  /** Bit per child that stands in `raw` whole. */
  inlined: number
  /** `present` as `raw` has it, when every child stands there by its hash; else -1. */
  hashed: number
  /** Nobody else holds `raw`: it can be changed in place. */
  isRawOwn: boolean
  /** Bit per child in which alone `raw` differs from `previous`, or from the row in the database; -1: it may differ anywhere. */
  changed: number
  /** Appended to the row that was before those changes (`patchesAfter`). */
  patches: number
  /** Bit per child in memory. */
  held: number
  /** Those, by nibble (`childAt`); another that is present is read from the database. Short ones are always here. Set by `keepChild`. */
  children: readonly TrieNode[]
}
export type Extension = Common & {
  readonly kind: 'extension'
  /** Nibbles, at least one. */
  readonly path: Bytes
  /** In memory always when it is short or inline. */
  child: TrieNode | undefined
}
export type Leaf = Common & {
  readonly kind: 'leaf'
  /** Nibble of the hashed key where the node's own path starts. Path and value are in `raw`: `leafKey`, `leafValue`. */
  readonly start: number
  /** Root of the account's storage trie, when in memory. */
  storage: TrieNode | undefined
}
export type TrieNode = Branch | Extension | Leaf

/** A place in a trie: the first `depth` nibbles of `key`. */
export type Place = { readonly key: Bytes; readonly depth: number }

/** Most branches have one child in memory or none: places for 16 would be a third of such a branch. */
const NO_CHILDREN: readonly TrieNode[] = Object.freeze([])

// Nodes of a kind have their fields in one order wherever they are made: V8 then has one hidden class for each kind.
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
  held: 0,
  children: NO_CHILDREN,
})
/** Of a stored branch the copy takes what is in memory below it: who asks the branch itself reads it again. */
export function copyBranch(
  from: Branch,
  owner: Owner,
  { previous, patches }: Pick<Branch, 'previous' | 'patches'>,
): Branch {
  const { raw, size, present, stale, inlined, hashed, held } = from
  const isTaken = from.owner.isStored && hashed === present
  const children = isTaken || held === 0 ? from.children : from.children.slice()
  if (isTaken) {
    from.held = 0
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
    held,
    children,
  }
}
/** Where the child is not in memory, `raw` is that of an extension above it. */
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
/** `raw` is the RLP of the leaf. */
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

export const childAt = ({ held, children }: Branch, nibble: number): TrieNode | undefined =>
  (held & (1 << nibble)) === 0 ? undefined : children[bitCount(held & ((1 << nibble) - 1))]

/** The child is the same, in memory or not any more. */
export function keepChild(
  parent: Branch | Extension,
  nibble: number,
  child: TrieNode | undefined,
): void {
  if (parent.kind === 'extension') {
    parent.child = child
    return
  }
  const { held, children } = parent
  const bit = 1 << nibble
  const at = bitCount(held & (bit - 1))
  if (child === undefined) {
    if ((held & bit) === 0) return
    parent.children = children.toSpliced(at, 1)
    parent.held = held & ~bit
  } else if ((held & bit) !== 0) {
    const own = children as TrieNode[]
    own[at] = child
  } else {
    // Not by a push, which reserves places for 16 more.
    const more = new Array<TrieNode>(children.length + 1)
    for (let i = 0; i < at; i++) more[i] = children[i]!
    more[at] = child
    for (let i = at; i < children.length; i++) more[i + 1] = children[i]!
    parent.children = more
    parent.held = held | bit
  }
}

/** Of 16 bits. */
export function bitCount(mask: number): number {
  let count = mask - ((mask >> 1) & 0x5555)
  count = (count & 0x3333) + ((count >> 2) & 0x3333)
  count = (count + (count >> 4)) & 0x0f0f
  return (count + (count >> 8)) & 0x1f
}

export const lowestBit = (mask: number): number => 31 - Math.clz32(mask & -mask)

/** Nothing that can be read again is held by the node any more. Nodes are encoded. */
export function unlink(node: TrieNode): void {
  if (node.kind === 'leaf') node.storage = undefined
  else if (node.kind === 'extension') {
    if (node.child?.isInline) unlink(node.child)
    else if (node.child !== undefined && !isShort(node.child)) node.child = undefined
  } else if (node.hashed === node.present) {
    node.held = 0
    node.children = NO_CHILDREN
  } else
    for (let nibble = 0; nibble < 16; nibble++) {
      const child = childAt(node, nibble)
      if (child !== undefined && !isShort(child)) keepChild(node, nibble, undefined)
    }
}

/** Parents hold it as it is, not its hash. */
export const isShort = ({ size }: TrieNode): boolean => size < 32
/** The node has a row of its own; another one lives in its parent's. */
export const hasRow = (node: TrieNode): boolean => !isShort(node) && !node.isInline
/** As its parent names it. */
export const rlpOf = ({ raw, size }: TrieNode): Bytes =>
  raw.length === size ? raw : raw.subarray(0, size)

/** A child that is not what it was when the branch was last hashed. */
export function setChild(branch: Branch, nibble: number, child: TrieNode | undefined): void {
  keepChild(branch, nibble, child)
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

/** Storage root in the RLP of an account: the last two items are hashes. */
export const storageRootOf = (account: Bytes): Bytes =>
  account.subarray(storageRootIn(account), account.length - 33)
/** Where it stands in the RLP of an account, or of its leaf, which the account ends. */
export const storageRootIn = ({ length }: Bytes): number => length - 65

/** The stored trie is not what its hashes say: the database is damaged, or a rule of ours was broken. */
export class TrieError extends Error {
  override name = 'TrieError'
}
