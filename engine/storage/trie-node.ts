/** Nodes of the Merkle Patricia trie in memory. */
import type { Bytes } from '../primitives/bytes.ts'

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
  /** RLP of the row that was at this place before its maker's version; undefined where there was none, or it is not known here. */
  previous: Bytes | undefined
}
export type Branch = Common & {
  readonly kind: 'branch'
  /** Bit per nibble. */
  present: number
  /** Bit per child that changed since `raw` was made. */
  stale: number
  /** `present` as `raw` has it, when every child stands there by its hash; else -1. */
  hashed: number
  /** Nobody else holds `raw`: it can be changed in place. */
  isRawOwn: boolean
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

// Nodes of a kind have their fields in one order wherever they are made: V8 then has one hidden class for each kind.
export const newBranch = (owner: Owner, seen: number): Branch => ({
  kind: 'branch',
  owner,
  raw: NO_RAW,
  reference: undefined,
  seen,
  previous: undefined,
  present: 0,
  stale: 0,
  hashed: -1,
  isRawOwn: false,
  children: new Array<TrieNode | undefined>(16).fill(undefined),
})
export const copyBranch = (
  { raw, seen, present, stale, hashed, children }: Branch,
  owner: Owner,
  previous: Bytes | undefined,
): Branch => ({
  kind: 'branch',
  owner,
  raw,
  reference: undefined,
  seen,
  previous,
  present,
  stale,
  hashed,
  isRawOwn: false,
  children: children.slice(),
})
/** `above`: where the child is not in memory, `raw` of an extension above it. */
export const newExtension = (
  owner: Owner,
  path: Bytes,
  { child, raw, seen }: Pick<Extension, 'child' | 'raw' | 'seen'>,
): Extension => ({
  kind: 'extension',
  owner,
  raw,
  reference: undefined,
  seen,
  previous: undefined,
  path,
  child,
})
export type Entry = {
  readonly key: Bytes
  readonly value: Bytes
  readonly storage: TrieNode | undefined
}
export const newLeaf = (
  owner: Owner,
  { key, value, storage }: Entry,
  { start, seen, previous }: Pick<Leaf, 'start' | 'seen'> & Partial<Pick<Leaf, 'previous'>>,
): Leaf => ({
  kind: 'leaf',
  owner,
  raw: NO_RAW,
  reference: undefined,
  seen,
  previous,
  key,
  start,
  value,
  storage,
})

/** A child that is not what it was when the branch was last hashed. */
export function setChild(branch: Branch, nibble: number, child: TrieNode | undefined): void {
  branch.children[nibble] = child
  if (child === undefined) branch.present &= ~(1 << nibble)
  else branch.present |= 1 << nibble
  branch.stale |= 1 << nibble
  branch.reference = undefined
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
  account.subarray(account.length - 65, account.length - 33)

/** The stored trie is not what its hashes say: the database is damaged, or a rule of ours was broken. */
export class TrieError extends Error {
  override name = 'TrieError'
}
