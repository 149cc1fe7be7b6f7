/**
 * Trie nodes as rows: keyed by path, one version per path. A version's changes are collected as
 * writes.
 */
import { type Bytes, NO_BYTES, newSlab, type Slab, take } from '../../primitives/bytes.ts'
import { latin1 } from '../../state/words.ts'
import type { WriteBatch } from '../database/types.ts'
import { childHashAt, leafKey } from './codec.ts'
import {
  childAt,
  hasRow,
  type NodePath,
  type Owner,
  setNibble,
  storageRootIn,
  type TrieNode,
} from './node.ts'
import { nameOf } from './node-cache.ts'
import { encodePatch, patchesAfter, patchScratch } from './patch.ts'

export type TrieColumn = 'accountTrie' | 'storageTrie'
/** `prefix`: empty, or the hash of the account whose storage trie it is. */
export type TrieSpace = { readonly column: TrieColumn; readonly prefix: Bytes }
export type TrieRow = { readonly column: TrieColumn; readonly key: Bytes; readonly raw: Bytes }
/** A changed row; an undefined value or `previous` means that there is no row. */
export type TrieWrite = {
  readonly column: TrieColumn
  readonly key: Bytes
  readonly value: Bytes | undefined
  readonly previous: Bytes | undefined
  /** Patch from `previous` to `value` (`encodePatch`); undefined where every byte may differ. */
  readonly patch: Bytes | undefined
  /** Patches of the row afterwards; 0 when the full row is written. */
  readonly patches: number
  /** `nameOf` the node. */
  readonly name: number
  /**
   * Buffer and position of the hash of `value`. `hashIn` is undefined for the state root. `hashAt`
   * is −1 if the node is not cached.
   */
  readonly hashIn: Bytes | undefined
  readonly hashAt: number
}

/** Prefix ‖ depth (1) ‖ the nibbles, two a byte, the last one padded with zero. */
export function nodeKey({ prefix }: TrieSpace, { key, depth }: NodePath, slab?: Slab): Bytes {
  const length = (depth + 1) >> 1
  const size = prefix.length + 1 + length
  const bytes = slab === undefined ? new Uint8Array(size) : take(slab, size)
  bytes.set(prefix)
  bytes[prefix.length] = depth
  for (let at = 0; at < length; at++) bytes[prefix.length + 1 + at] = key[at]!
  if (depth % 2 === 1) bytes[bytes.length - 1]! &= 0xf0
  return bytes
}

/** Rows by `rowName`. */
export type ReplacedRows = Map<string, TrieRow>
export const rowName = (column: TrieColumn, key: Bytes): string =>
  (column === 'accountTrie' ? 'a' : 's') + latin1(key)

/**
 * Collects the writes of a version: nodes of `owner` are put, and replaced rows without a successor
 * are deleted. It consumes `replaced` and the nodes' `previous`. Nodes of `owner` that reference
 * others in memory are added to `linked`. Each `next` looks at some hundred nodes. Writes are
 * sorted by key, because a commit then takes 0.6 instead of 1.9 µs a row (2026-11).
 */
export function* collectWrites(
  root: TrieNode | undefined,
  owner: Owner,
  { replaced, linked }: { readonly replaced: ReplacedRows; readonly linked: TrieNode[] },
): Generator<undefined, readonly TrieWrite[]> {
  const made = { slab: newSlab(KEYS_BYTES), scratch: patchScratch() }
  const walks: Walk[] = [newWalk(ACCOUNTS)]
  const top = { depth: 0, nibble: -1, hashIn: undefined, hashAt: 0 }
  const open: Visit[] = [{ node: root, walk: walks[0]!, ...top }]
  for (let seen = 1; open.length > 0; seen++) {
    const { node, walk, depth, nibble, hashIn, hashAt } = open.pop()!
    if (nibble >= 0) setNibble(walk.key, depth - 1, nibble)
    if (node === undefined || node.owner !== owner) continue
    // A short node has no row, but may have had one before this version.
    const value = hasRow(node) ? node.raw : undefined
    if (value !== undefined || node.previous !== undefined) {
      const { column } = walk.space
      const key = nodeKey(walk.space, { key: walk.key, depth }, made.slab)
      const previous = node.previous ?? takeReplaced(replaced, column, key)
      const patch = patchOf(node, made)
      const patches = node.kind === 'branch' ? patchesAfter(node) : 0
      walk.levels[depth] ??= []
      // Storage leaves are not cached, because the next diff states their values.
      const isRetained = node.kind !== 'leaf' || column === 'accountTrie'
      const name = isRetained ? nameOf(walk.space.prefix, walk.key, depth) : 0
      walk.levels[depth].push({
        column,
        key,
        value,
        previous,
        patch,
        patches,
        name,
        hashIn,
        hashAt: isRetained ? hashAt : -1,
      })
      if (node.kind === 'branch') {
        node.patches = patches
        node.changed = 0
      }
    }
    node.previous = undefined
    if (node.kind !== 'leaf' || node.storage !== undefined) linked.push(node)
    if (node.kind === 'leaf' && node.storage !== undefined) {
      const below = newWalk({ column: 'storageTrie', prefix: leafKey(node, walk.key) })
      walks.push(below)
      const { raw: hashIn, storage } = node
      const hashAt = storageRootIn(hashIn)
      open.push({ node: storage, walk: below, depth: 0, nibble: -1, hashIn, hashAt })
    } else pushChildren(open, node, { walk, depth })
    if (seen % NODES_IN_STEP === 0) yield
  }
  // Levels are sparse, because extensions skip some.
  const writes = walks.flatMap(({ levels }) => levels.flat())
  for (const { column, key, raw } of replaced.values())
    writes.push({ column, key, value: undefined, previous: raw, ...NOT_CACHED })
  return writes
}

const NOT_CACHED = { patch: undefined, patches: 0, name: 0, hashIn: undefined, hashAt: -1 } as const

function patchOf(
  node: TrieNode,
  made: { readonly slab: Slab; readonly scratch: Bytes },
): Bytes | undefined {
  const { previous } = node
  if (node.kind !== 'branch' || previous === undefined || node.changed === -1 || !hasRow(node))
    return undefined
  return encodePatch(node, previous, made)
}

/** Puts a write into the batch. */
export function putNode(
  batch: WriteBatch,
  { column, key, value, patch, patches }: TrieWrite,
): void {
  if (value === undefined) batch.delete(column, key)
  else if (patch?.length === 0) return
  else if (patch === undefined || patches === 0) batch.put(column, key, value)
  else batch.merge(column, key, patch)
}

function takeReplaced(replaced: ReplacedRows, column: TrieColumn, key: Bytes): Bytes | undefined {
  if (replaced.size === 0) return undefined
  const name = rowName(column, key)
  const raw = replaced.get(name)?.raw
  replaced.delete(name)
  return raw
}

/**
 * Position of the walk through one trie. A subtree is visited before its next sibling, so that one
 * key serves the whole trie.
 */
type Walk = {
  readonly space: TrieSpace
  readonly key: Bytes
  /** Writes by depth, in the order of the keys. */
  readonly levels: TrieWrite[][]
}
const newWalk = (space: TrieSpace): Walk => ({ space, key: new Uint8Array(32), levels: [] })
type Visit = {
  readonly node: TrieNode | undefined
  readonly walk: Walk
  readonly depth: number
  /** Nibble before `depth` if the parent is a branch, otherwise −1. */
  readonly nibble: number
  /** Position of the node's hash, if it has one. */
  readonly hashIn: Bytes | undefined
  readonly hashAt: number
}

function pushChildren(
  open: Visit[],
  node: TrieNode,
  { walk, depth }: { readonly walk: Walk; readonly depth: number },
): void {
  if (node.kind === 'branch') {
    // The child pushed last is visited first.
    for (let nibble = 15; nibble >= 0; nibble--) {
      const child = childAt(node, nibble)
      if (child?.owner === node.owner) {
        const hashAt = childHashAt(node, nibble)
        open.push({ node: child, walk, depth: depth + 1, nibble, hashIn: node.raw, hashAt })
      }
    }
  } else if (node.kind === 'extension') {
    for (const [i, nibble] of node.path.entries()) setNibble(walk.key, depth + i, nibble)
    const hashAt = childHashAt(node, 0)
    const below = depth + node.path.length
    open.push({ node: node.child, walk, depth: below, nibble: -1, hashIn: node.raw, hashAt })
  }
}

const ACCOUNTS: TrieSpace = { column: 'accountTrie', prefix: NO_BYTES }
const NODES_IN_STEP = 512
/** Bytes of about 400 keys. */
export const KEYS_BYTES = 16_384
