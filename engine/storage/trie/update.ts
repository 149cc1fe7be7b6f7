/** Many changes to one trie in one walk: sorted by path, each node on the way copied once, and encoded on the way back. */
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
  newBranch,
  newExtension,
  newLeaf,
  type Owner,
  type Place,
  rlpOf,
  setChild,
  type TrieNode,
  withNibble,
} from './node.ts'
import { patchesAfter } from './patch.ts'

/** `key` is hashed, 32 bytes; `value` undefined: not in the trie afterwards. */
export type Change = {
  readonly key: Bytes
  readonly value: Bytes | undefined
  readonly storage: TrieNode | undefined
  /** Of a slot: its word before, as far as its diff knows. */
  readonly before: Bytes | undefined
}

/** One trie while it is changed. */
export type Trie = {
  readonly owner: Owner
  /** The child at `place`, read when it is not in memory and kept in its parent. */
  child(parent: Branch | Extension, nibble: number, place: Place): TrieNode
  /** The row that was at `place` before this version, as RLP, is not there any more, or another node took its place. */
  replaced(previous: Bytes, place: Place): void
}

/** Some of the changes, sorted and without duplicates (`sortChanges`). */
export type Part = {
  readonly changes: readonly Change[]
  readonly from: number
  readonly to: number
}
export const wholeOf = (changes: readonly Change[]): Part => ({
  changes,
  from: 0,
  to: changes.length,
})

/** The new root. */
export function updateTrie(
  trie: Trie,
  root: TrieNode | undefined,
  { changes, from, to }: Part,
): TrieNode | undefined {
  if (from === to) return root
  return update(trie, root, { changes, from, to, depth: 0 })
}

/** By key; of several with one key the last stays. */
export function sortChanges(changes: readonly Change[]): readonly Change[] {
  const byOrder = new Map<number, Change>()
  for (const change of changes) {
    const order = orderOf(change.key)
    const other = byOrder.get(order)
    if (other !== undefined && !isSame(other.key, change.key)) return sortWhole(changes)
    byOrder.set(order, change)
  }
  // Numbers sort many times faster than anything that is compared by a function.
  return Array.from(Float64Array.from(byOrder.keys()).sort(), (order) => byOrder.get(order)!)
}

/** The first 6 bytes as a number: tells hashes apart, all but never two that begin alike. */
const orderOf = (key: Bytes): number =>
  (key[0]! * 2 ** 16 + key[1]! * 2 ** 8 + key[2]!) * 2 ** 24 +
  (key[3]! * 2 ** 16 + key[4]! * 2 ** 8 + key[5]!)

function sortWhole(changes: readonly Change[]): readonly Change[] {
  const sorted = changes.toSorted((a, b) => Buffer.compare(a.key, b.key))
  return sorted.filter(
    ({ key }, at) => at + 1 === sorted.length || !isSame(key, sorted[at + 1]!.key),
  )
}

/** The leaf of a key. */
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
 * The nodes on the way to a key, root first, as a proof has them: those that their parent names by a hash. It ends where the key is, or
 * where it would have to be.
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

/** The same node when nothing changed. */
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
    // The root of its storage is in the RLP: another node of the same hash is the same.
    if (isSame(raw, leaf.raw)) return leaf
    return newLeaf(owner, raw, { start, storage, previous: rowBefore(trie, leaf) })
  }
  const entries = entriesOf(span)
  const own = span.changes.slice(span.from, span.to).find(({ key }) => isLeafOf(leaf, key))
  const value = leafValue(leaf)
  const isSameValue = own?.value !== undefined && isSame(own.value, value)
  if (entries.length === 0 && own === undefined) return leaf
  if (entries.length === 1 && isSameValue) return leaf
  const whole = leafKey(leaf, keyOf(span))
  replace(trie, leaf, { key: whole, depth: start })
  if (own === undefined) {
    const after = entries.findIndex(({ key }) => Buffer.compare(key, whole) > 0)
    const entry = { key: whole, value, storage: leaf.storage }
    entries.splice(after === -1 ? entries.length : after, 0, entry)
  }
  return build(trie, entries, span.depth)
}

function updateExtension(trie: Trie, node: Extension, span: Span): TrieNode | undefined {
  const { depth } = span
  const place = { key: keyOf(span), depth }
  const last = span.changes[span.to - 1]!.key
  const shared = Math.min(
    sharedWith(node.path, place.key, depth),
    sharedWith(node.path, last, depth),
  )
  // Where the path of the extension is, whether or not a change goes there.
  const end = withPath(place, node.path)
  if (shared === node.path.length) {
    const child = trie.child(node, 0, end)
    const updated = update(trie, child, { ...span, depth: end.depth })
    if (updated === child) {
      if (!child.isEncoded) node.isEncoded = false
      return node
    }
    replace(trie, node, place)
    return prepend(trie, node.path, { node: updated, way: end.key })
  }
  if (entriesOf(span).length === 0) {
    const inside = span.changes.slice(span.from, span.to)
    const within = inside.filter(
      ({ key }) => sharedWith(node.path, key, depth) === node.path.length,
    )
    // Deletions beside the path concern nothing.
    if (within.length === 0) return node
    return updateExtension(trie, node, { changes: within, from: 0, to: within.length, depth })
  }
  replace(trie, node, place)
  const nibble = node.path[shared]!
  const rest = node.path.slice(shared + 1)
  // The child is not read: what is below a split does not change.
  const branch = branchAbove(trie, nibble, rest.length === 0 ? node : undefined)
  if (rest.length > 0) setChild(branch, nibble, newExtension(trie.owner, rest, node))
  const updated = updateBranch(trie, branch, { ...span, depth: depth + shared })
  return prepend(trie, node.path.slice(0, shared), { node: updated, way: place.key })
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
      // Now, while what stands below it is in the processor's caches.
      if (updated !== undefined) encodeNode(updated)
    }
    from = end
  }
  return branch === node && branch.isEncoded
    ? node
    : collapse(trie, branch, { key: keyOf(span), depth })
}

/** A branch with one child left becomes part of that child's path. */
function collapse(trie: Trie, branch: Branch, place: Place): TrieNode | undefined {
  const { present } = branch
  if ((present & (present - 1)) !== 0) return branch
  replace(trie, branch, place)
  if (present === 0) return undefined
  const nibble = 31 - Math.clz32(present)
  const key = withNibble(place.key, place.depth, nibble)
  const below = { key, depth: place.depth + 1 }
  const child = trie.child(branch, nibble, below)
  if (child.kind !== 'branch') replace(trie, child, below)
  return prepend(trie, Uint8Array.of(nibble), { node: child, way: key })
}

/** A branch with one child: that of `from`, in memory or not, or one that the caller sets. */
function branchAbove({ owner }: Trie, nibble: number, from: Extension | undefined): Branch {
  const branch = newBranch(owner)
  if (from?.child !== undefined) setChild(branch, nibble, from.child)
  else if (from !== undefined) {
    branch.present = 1 << nibble
    branch.raw = rawBranch(nibble, childHash(from, 0))
  }
  return branch
}

/** The node with a longer path; `way` has the nibbles above it. */
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
  const whole = new Uint8Array(path.length + node.path.length)
  whole.set(path)
  whole.set(node.path, path.length)
  return newExtension(trie.owner, whole, node)
}

const leafOf = ({ owner }: Trie, entry: Entry, start: number): Leaf =>
  newLeaf(owner, encodeLeaf(owner.slab, entry, start), { start, storage: entry.storage })

const extendTo = ({ owner }: Trie, path: Bytes, child: Branch): Extension =>
  newExtension(owner, path, { child, raw: NO_BYTES })

/** A subtree of entries that share the first `depth` nibbles. */
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

/** The node is not at this place any more. */
function replace(trie: Trie, node: TrieNode, place: Place): void {
  const previous = rowBefore(trie, node)
  if (previous !== undefined) trie.replaced(previous, place)
}

/** The row at the node's place before this version. A short node has none: it lives in its parent's. */
function rowBefore({ owner }: Trie, node: TrieNode): Bytes | undefined {
  if (node.owner === owner) return node.previous
  return hasRow(node) ? node.raw : undefined
}

/** How many nibbles of `path` the key has from `depth` on. */
function sharedWith(path: Bytes, key: Bytes, depth: number): number {
  let at = 0
  while (at < path.length && path[at] === nibbleAt(key, depth + at)) at++
  return at
}

function withPath({ key, depth }: Place, path: Bytes): Place {
  let whole = key
  path.forEach((nibble, at) => {
    if (nibbleAt(whole, depth + at) !== nibble) whole = withNibble(whole, depth + at, nibble)
  })
  return { key: whole, depth: depth + path.length }
}

/** From the end, where values are: leaves of one key begin alike. */
function isSame(a: Bytes, b: Bytes): boolean {
  let at = a.length
  if (at !== b.length) return false
  while (at > 0 && a[at - 1] === b[at - 1]) at--
  return at === 0
}
