/**
 * Applies many changes to one trie in one walk. They are sorted by path; each node on the way is
 * copied once, and encoded on the way back.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { nibbleAt } from '../../primitives/trie-root.ts'
import {
  childHash,
  encodeLeaf,
  encodeNode,
  isLeafOf,
  leafKey,
  leafValue,
  rawBranch,
} from './codec.ts'
import {
  type Branch,
  childAt,
  copyBranch,
  type Entry,
  type Extension,
  hasRow,
  isShort,
  type Leaf,
  type NodePath,
  newBranch,
  newExtension,
  newLeaf,
  type Owner,
  rlpOf,
  setChild,
  type TrieNode,
  withNibble,
} from './node.ts'
import { patchesAfter } from './patch.ts'

/** `key`: hashed, 32 bytes. `value`: undefined removes the key. */
export type Change = {
  readonly key: Bytes
  readonly value: Bytes | undefined
  readonly storage: TrieNode | undefined
  /** Former word of a slot, as far as its diff knows it. */
  readonly before: Bytes | undefined
}

export type Trie = {
  readonly owner: Owner
  /**
   * Returns the child at `nodePath`. A child that is not in memory is read and linked to its
   * parent.
   */
  child(parent: Branch | Extension, nibble: number, nodePath: NodePath): TrieNode
  /** Reports the row that was at `nodePath` before this version, and is gone or replaced now. */
  replaced(previous: Bytes, nodePath: NodePath): void
}

/** Some of the changes, sorted and without duplicates (`sortChanges`). */
export type Part = {
  readonly changes: readonly Change[]
  readonly from: number
  readonly to: number
}
export const allChanges = (changes: readonly Change[]): Part => ({
  changes,
  from: 0,
  to: changes.length,
})

/** Applies changes and returns the new root. */
export function updateTrie(
  trie: Trie,
  root: TrieNode | undefined,
  { changes, from, to }: Part,
): TrieNode | undefined {
  if (from === to) return root
  return update(trie, root, { changes, from, to, depth: 0 })
}

/** Sorts changes by key; the last one of each key wins. */
export function sortChanges(changes: readonly Change[]): readonly Change[] {
  const byOrder = new Map<number, Change>()
  for (const change of changes) {
    const order = orderOf(change.key)
    const other = byOrder.get(order)
    if (other !== undefined && !isSame(other.key, change.key)) return sortByBytes(changes)
    byOrder.set(order, change)
  }
  // Numbers sort many times faster than objects with a compare function.
  return Array.from(Float64Array.from(byOrder.keys()).sort(), (order) => byOrder.get(order)!)
}

/** The first 6 bytes of a hash as a number. Different hashes almost never share them. */
const orderOf = (key: Bytes): number =>
  (key[0]! * 2 ** 16 + key[1]! * 2 ** 8 + key[2]!) * 2 ** 24 +
  (key[3]! * 2 ** 16 + key[4]! * 2 ** 8 + key[5]!)

function sortByBytes(changes: readonly Change[]): readonly Change[] {
  const sorted = changes.toSorted((a, b) => Buffer.compare(a.key, b.key))
  return sorted.filter(
    ({ key }, at) => at + 1 === sorted.length || !isSame(key, sorted[at + 1]!.key),
  )
}

export function findLeaf(trie: Trie, root: TrieNode | undefined, key: Bytes): Leaf | undefined {
  let node = root
  for (let depth = 0; node !== undefined; ) {
    if (node.kind === 'leaf') return isLeafOf(node, key) ? node : undefined
    if (node.kind === 'extension') {
      if (sharedWith(node.path, key, depth) < node.path.length) return undefined
      depth += node.path.length
      node = trie.child(node, 0, { key, depth })
    } else {
      const nibble = nibbleAt(key, depth)
      if ((node.present & (1 << nibble)) === 0) return undefined
      depth += 1
      node = trie.child(node, nibble, { key, depth })
    }
  }
  return undefined
}

/**
 * RLP of the nodes on the way to a key, root first, as a proof has them. Nodes that their parent
 * contains are left out. The proof ends at the key, or where the key would have to be.
 */
export function provePath(trie: Trie, root: TrieNode | undefined, key: Bytes): readonly Bytes[] {
  const proof: Bytes[] = []
  let node = root
  for (let depth = 0; node !== undefined; ) {
    if (depth === 0 || !isShort(node)) proof.push(rlpOf(node))
    if (node.kind === 'leaf') break
    if (node.kind === 'extension') {
      if (sharedWith(node.path, key, depth) < node.path.length) break
      depth += node.path.length
      node = trie.child(node, 0, { key, depth })
    } else {
      const nibble = nibbleAt(key, depth)
      if ((node.present & (1 << nibble)) === 0) break
      depth += 1
      node = trie.child(node, nibble, { key, depth })
    }
  }
  return proof
}

/** Changes that share the first `depth` nibbles. */
type Span = Part & { readonly depth: number }
const keyOf = (span: Span): Bytes => span.changes[span.from]!.key

/** Returns the same node when nothing changed. */
function update(trie: Trie, node: TrieNode | undefined, span: Span): TrieNode | undefined {
  if (node === undefined) return build(trie, entriesOf(span), span.depth)
  if (node.kind === 'leaf') return updateLeaf(trie, node, span)
  if (node.kind === 'extension') return updateExtension(trie, node, span)
  return updateBranch(trie, node, span)
}

function updateLeaf(trie: Trie, leaf: Leaf, span: Span): TrieNode | undefined {
  const { owner } = trie
  const { start } = leaf
  const only = span.to - span.from === 1 ? span.changes[span.from] : undefined
  if (only?.value !== undefined && isLeafOf(leaf, only.key)) {
    const { storage } = only
    const raw = encodeLeaf(owner.slab, { key: only.key, value: only.value }, start)
    // The RLP has the root of the storage trie, so that an equal leaf has equal storage.
    if (isSame(raw, leaf.raw)) return leaf
    return newLeaf(owner, raw, { start, storage, previous: rowBefore(trie, leaf) })
  }
  const entries = entriesOf(span)
  const own = span.changes.slice(span.from, span.to).find(({ key }) => isLeafOf(leaf, key))
  const value = leafValue(leaf)
  const isSameValue = own?.value !== undefined && isSame(own.value, value)
  if (entries.length === 0 && own === undefined) return leaf
  if (entries.length === 1 && isSameValue) return leaf
  const full = leafKey(leaf, keyOf(span))
  replace(trie, leaf, { key: full, depth: start })
  if (own === undefined) {
    const after = entries.findIndex(({ key }) => Buffer.compare(key, full) > 0)
    const entry = { key: full, value, storage: leaf.storage }
    entries.splice(after === -1 ? entries.length : after, 0, entry)
  }
  return build(trie, entries, span.depth)
}

function updateExtension(trie: Trie, node: Extension, span: Span): TrieNode | undefined {
  const { depth } = span
  const nodePath = { key: keyOf(span), depth }
  const last = span.changes[span.to - 1]!.key
  const shared = Math.min(
    sharedWith(node.path, nodePath.key, depth),
    sharedWith(node.path, last, depth),
  )
  // End of the extension's path, whether or not a change goes there.
  const end = withPath(nodePath, node.path)
  if (shared === node.path.length) {
    const child = trie.child(node, 0, end)
    const updated = update(trie, child, { ...span, depth: end.depth })
    if (updated === child) {
      if (!child.isEncoded) node.isEncoded = false
      return node
    }
    replace(trie, node, nodePath)
    return prepend(trie, node.path, { node: updated, way: end.key })
  }
  if (entriesOf(span).length === 0) {
    const inside = span.changes.slice(span.from, span.to)
    const within = inside.filter(
      ({ key }) => sharedWith(node.path, key, depth) === node.path.length,
    )
    // Deletions beside the path change nothing.
    if (within.length === 0) return node
    return updateExtension(trie, node, { changes: within, from: 0, to: within.length, depth })
  }
  replace(trie, node, nodePath)
  const nibble = node.path[shared]!
  const rest = node.path.slice(shared + 1)
  // The child is not read, because nodes below a split do not change.
  const branch = branchAbove(trie, nibble, rest.length === 0 ? node : undefined)
  if (rest.length > 0) setChild(branch, nibble, newExtension(trie.owner, rest, node))
  const updated = updateBranch(trie, branch, { ...span, depth: depth + shared })
  return prepend(trie, node.path.slice(0, shared), { node: updated, way: nodePath.key })
}

function updateBranch(trie: Trie, node: Branch, span: Span): TrieNode | undefined {
  const { changes, to, depth } = span
  let branch = node
  for (let from = span.from; from < to; ) {
    const { key } = changes[from]!
    const nibble = nibbleAt(key, depth)
    let end = from + 1
    while (end < to && nibbleAt(changes[end]!.key, depth) === nibble) end++
    const isPresent = (branch.present & (1 << nibble)) !== 0
    const child = isPresent
      ? (childAt(branch, nibble) ?? trie.child(branch, nibble, { key, depth: depth + 1 }))
      : undefined
    const updated = update(trie, child, { changes, from, to: end, depth: depth + 1 })
    if (updated !== child || (updated !== undefined && !updated.isEncoded)) {
      if (branch.owner !== trie.owner)
        branch = copyBranch(branch, trie.owner, {
          previous: rowBefore(trie, branch),
          patches: patchesAfter(branch),
        })
      setChild(branch, nibble, updated)
      // The child is encoded now, while the nodes below are in the processor's caches.
      if (updated !== undefined) encodeNode(updated)
    }
    from = end
  }
  return branch === node && branch.isEncoded
    ? node
    : collapse(trie, branch, { key: keyOf(span), depth })
}

/** Merges a branch that has one child left into that child's path. */
function collapse(trie: Trie, branch: Branch, nodePath: NodePath): TrieNode | undefined {
  const { present } = branch
  if ((present & (present - 1)) !== 0) return branch
  replace(trie, branch, nodePath)
  if (present === 0) return undefined
  const nibble = 31 - Math.clz32(present)
  const key = withNibble(nodePath.key, nodePath.depth, nibble)
  const below = { key, depth: nodePath.depth + 1 }
  const child = trie.child(branch, nibble, below)
  if (child.kind !== 'branch') replace(trie, child, below)
  return prepend(trie, Uint8Array.of(nibble), { node: child, way: key })
}

/** Makes a branch with one child: that of `from`, in memory or not, or one that the caller sets. */
function branchAbove({ owner }: Trie, nibble: number, from: Extension | undefined): Branch {
  const branch = newBranch(owner)
  if (from?.child !== undefined) setChild(branch, nibble, from.child)
  else if (from !== undefined) {
    branch.present = 1 << nibble
    branch.raw = rawBranch(nibble, childHash(from, 0))
  }
  return branch
}

/** Prepends `path` to a node; `way` has the nibbles above the node. */
function prepend(
  trie: Trie,
  path: Bytes,
  { node, way }: { readonly node: TrieNode | undefined; readonly way: Bytes },
): TrieNode | undefined {
  if (node === undefined || path.length === 0) return node
  if (node.kind === 'branch') return extendTo(trie, path, node)
  if (node.kind === 'leaf')
    return leafOf(
      trie,
      { key: leafKey(node, way), value: leafValue(node), storage: node.storage },
      node.start - path.length,
    )
  const full = new Uint8Array(path.length + node.path.length)
  full.set(path)
  full.set(node.path, path.length)
  return newExtension(trie.owner, full, node)
}

const leafOf = ({ owner }: Trie, entry: Entry, start: number): Leaf =>
  newLeaf(owner, encodeLeaf(owner.slab, entry, start), { start, storage: entry.storage })

const extendTo = ({ owner }: Trie, path: Bytes, child: Branch): Extension =>
  newExtension(owner, path, { child, raw: NO_BYTES })

/** Builds a subtree of entries that share the first `depth` nibbles. */
function build(trie: Trie, entries: readonly Entry[], depth: number): TrieNode | undefined {
  const [first] = entries
  if (first === undefined) return undefined
  const { owner } = trie
  if (entries.length === 1) return leafOf(trie, first, depth)
  const last = entries[entries.length - 1]!
  let at = depth
  while (nibbleAt(first.key, at) === nibbleAt(last.key, at)) at++
  const branch = newBranch(owner)
  for (let from = 0; from < entries.length; ) {
    const nibble = nibbleAt(entries[from]!.key, at)
    let to = from + 1
    while (to < entries.length && nibbleAt(entries[to]!.key, at) === nibble) to++
    setChild(branch, nibble, build(trie, entries.slice(from, to), at + 1))
    from = to
  }
  if (at === depth) return branch
  const path = new Uint8Array(at - depth)
  for (let i = 0; i < path.length; i++) path[i] = nibbleAt(first.key, depth + i)
  return extendTo(trie, path, branch)
}

function entriesOf({ changes, from, to }: Span): Entry[] {
  const entries: Entry[] = []
  for (let at = from; at < to; at++) {
    const { key, value, storage } = changes[at]!
    if (value !== undefined) entries.push({ key, value, storage })
  }
  return entries
}

/** Reports that the node is not at this path any more. */
function replace(trie: Trie, node: TrieNode, nodePath: NodePath): void {
  const previous = rowBefore(trie, node)
  if (previous !== undefined) trie.replaced(previous, nodePath)
}

/**
 * Row at the node's path before this version. A short or inline node has none, because it is part
 * of its parent's row.
 */
function rowBefore({ owner }: Trie, node: TrieNode): Bytes | undefined {
  if (node.owner === owner) return node.previous
  return hasRow(node) ? node.raw : undefined
}

/** Number of nibbles of `path` that the key has from `depth` on. */
function sharedWith(path: Bytes, key: Bytes, depth: number): number {
  let at = 0
  while (at < path.length && path[at] === nibbleAt(key, depth + at)) at++
  return at
}

function withPath({ key, depth }: NodePath, path: Bytes): NodePath {
  let full = key
  path.forEach((nibble, at) => {
    if (nibbleAt(full, depth + at) !== nibble) full = withNibble(full, depth + at, nibble)
  })
  return { key: full, depth: depth + path.length }
}

/** Compares from the end, where values are: leaves of one key start alike. */
function isSame(a: Bytes, b: Bytes): boolean {
  let at = a.length
  if (at !== b.length) return false
  while (at > 0 && a[at - 1] === b[at - 1]) at--
  return at === 0
}
