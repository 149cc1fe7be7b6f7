/**
 * Builds a trie from entries in the order of their keys. Each node is written once nothing can
 * change it any more.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { nibbleAt } from '../../primitives/trie-root.ts'
import type { WriteBatch } from '../database/types.ts'
import { encodeLeaf, encodeNode, rootHash } from './codec.ts'
import { isSmall } from './inline.ts'
import {
  type Branch,
  isShort,
  newBranch,
  newExtension,
  newLeaf,
  newNodeSlab,
  newOwner,
  setChild,
  type TrieNode,
  unlink,
} from './node.ts'
import { nodeKey, type TrieSpace } from './rows.ts'

export type TrieBuilder = {
  /**
   * Adds an entry.
   * @param key 32 bytes, above all earlier keys
   * @param value RLP
   * @throws {RangeError} for a key that is not above the one before
   */
  add(key: Bytes, value: Bytes): void
  /** Puts the last rows and returns the root. */
  finish(): Bytes
}

/**
 * Builds a trie with memory for one path. Rows go into `batch`, which the caller commits regularly.
 */
export function buildTrie(space: TrieSpace, batch: Pick<WriteBatch, 'put'>): TrieBuilder {
  const owner = newOwner(newNodeSlab())
  /** The branches that are open, from the root down. */
  const open: { readonly depth: number; readonly branch: Branch }[] = []
  let last: { readonly key: Bytes; readonly value: Bytes } | undefined

  const write = (node: TrieNode, key: Bytes, depth: number): TrieNode => {
    encodeNode(node)
    // A short node is part of its parent's RLP, a small one of its parent's row.
    if (isShort(node) || (isSmall(node) && depth > 0)) return node
    batch.put(space.column, nodeKey(space, { key, depth }), node.raw)
    // The parent needs only the node's hash.
    unlink(node)
    return node
  }
  /** Puts an extension above `node` (at `depth`), if its parent looks for the child at `from`. */
  const extended = (node: TrieNode, key: Bytes, from: number, depth: number): TrieNode => {
    if (from === depth) return node
    const path = Uint8Array.from({ length: depth - from }, (_, at) => nibbleAt(key, from + at))
    return write(newExtension(owner, path, { child: node, raw: NO_BYTES }), key, from)
  }

  /** Attaches the last entry. `shared`: nibbles in common with the next one, −1 at the end. */
  function attach(shared: number): TrieNode | undefined {
    const { key, value } = last!
    let top = open.at(-1)
    if (top === undefined || top.depth < shared) {
      if (shared < 0) return leaf(key, value, 0)
      top = { depth: shared, branch: newBranch(owner) }
      open.push(top)
    }
    setChild(top.branch, nibbleAt(key, top.depth), leaf(key, value, top.depth + 1))
    while (top.depth > shared) {
      open.pop()
      const node = write(top.branch, key, top.depth)
      const above: (typeof open)[number] | undefined = open.at(-1)
      if (shared < 0 && above === undefined) return extended(node, key, 0, top.depth)
      const holder =
        above === undefined || above.depth < shared
          ? { depth: shared, branch: newBranch(owner) }
          : above
      if (holder !== above) open.push(holder)
      setChild(
        holder.branch,
        nibbleAt(key, holder.depth),
        extended(node, key, holder.depth + 1, top.depth),
      )
      top = holder
    }
    return undefined
  }
  const leaf = (key: Bytes, value: Bytes, start: number) =>
    write(
      newLeaf(owner, encodeLeaf(owner.slab, { key, value }, start), { start, storage: undefined }),
      key,
      start,
    )

  return {
    add(key, value) {
      if (last !== undefined) attach(sharedBelow(last.key, key))
      last = { key, value }
    },
    finish: () => rootHash(last && attach(-1)),
  }
}

/**
 * Number of nibbles that two keys share.
 * @throws {RangeError} when the second is not above the first
 */
function sharedBelow(a: Bytes, b: Bytes): number {
  const shared = sharedNibbles(a, b)
  if (shared === 64 || nibbleAt(a, shared) > nibbleAt(b, shared))
    throw new RangeError('a key is not above the one before it')
  return shared
}

function sharedNibbles(a: Bytes, b: Bytes): number {
  let at = 0
  while (at < 32 && a[at] === b[at]) at++
  if (at === 32) return 64
  return 2 * at + ((a[at]! ^ b[at]!) < 16 ? 1 : 0)
}
