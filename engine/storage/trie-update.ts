/** Many changes to one trie in one walk: sorted by path, each node on the way copied once, nothing hashed. */
import type { Bytes } from '../primitives/bytes.ts'
import { nibbleAt } from '../primitives/trie-root.ts'
import { childHash, rawBranch } from './trie-codec.ts'
import {
  type Branch,
  copyBranch,
  type Entry,
  type Extension,
  type Leaf,
  NO_RAW,
  newBranch,
  newExtension,
  newLeaf,
  type Owner,
  type Place,
  setChild,
  type TrieNode,
  withNibble,
} from './trie-node.ts'

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
  /** Epoch, set on each node that is walked over. */
  readonly seen: number
  /** The child at `place`, read when it is not in memory and kept in its parent. */
  child(parent: Branch | Extension, nibble: number, place: Place): TrieNode
  /** The row that was at `place` before this version, as RLP, is not there any more, or another node took its place. */
  replaced(previous: Bytes, place: Place): void
}

/** The new root. `changes` are sorted and without duplicates (`sortChanges`). */
export function updateTrie(
  trie: Trie,
  root: TrieNode | undefined,
  changes: readonly Change[],
): TrieNode | undefined {
  if (changes.length === 0) return root
  return update(trie, root, { changes, from: 0, to: changes.length, depth: 0 })
}

/** By key; of several with one key the last stays. */
export function sortChanges(changes: readonly Change[]): readonly Change[] {
  const keyed = changes.map((change, index) => ({ change, index, order: orderOf(change.key) }))
  keyed.sort(
    (a, b) => a.order - b.order || Buffer.compare(a.change.key, b.change.key) || a.index - b.index,
  )
  return keyed
    .filter(({ change }, at) => {
      const next = keyed[at + 1]?.change
      return next === undefined || Buffer.compare(change.key, next.key) !== 0
    })
    .map(({ change }) => change)
}

/** The first 6 bytes as a number: decides nearly every comparison of hashes. */
const orderOf = (key: Bytes): number =>
  (key[0]! * 2 ** 16 + key[1]! * 2 ** 8 + key[2]!) * 2 ** 24 +
  (key[3]! * 2 ** 16 + key[4]! * 2 ** 8 + key[5]!)

/** The leaf of a key. */
export function findLeaf(trie: Trie, root: TrieNode | undefined, key: Bytes): Leaf | undefined {
  let node = root
  for (let depth = 0; node !== undefined; ) {
    node.seen = trie.seen
    if (node.kind === 'leaf') return Buffer.compare(node.key, key) === 0 ? node : undefined
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
    if (depth === 0 || node.reference?.length === 32) proof.push(node.raw)
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
type Span = {
  readonly changes: readonly Change[]
  readonly from: number
  readonly to: number
  readonly depth: number
}
const keyOf = (span: Span): Bytes => span.changes[span.from]!.key

/** The same node when nothing changed. */
function update(trie: Trie, node: TrieNode | undefined, span: Span): TrieNode | undefined {
  if (node === undefined) return build(trie, entriesOf(span), span.depth)
  node.seen = trie.seen
  if (node.kind === 'leaf') return updateLeaf(trie, node, span)
  if (node.kind === 'extension') return updateExtension(trie, node, span)
  return updateBranch(trie, node, span)
}

function updateLeaf(trie: Trie, leaf: Leaf, span: Span): TrieNode | undefined {
  const only = span.to - span.from === 1 ? span.changes[span.from] : undefined
  if (only?.value !== undefined && isSame(only.key, leaf.key)) {
    if (isSame(only.value, leaf.value) && only.storage === leaf.storage) return leaf
    const { key, value, storage } = only
    const at = { start: leaf.start, seen: trie.seen, previous: rowBefore(trie, leaf) }
    return newLeaf(trie.owner, { key, value, storage }, at)
  }
  const entries = entriesOf(span)
  const own = span.changes.slice(span.from, span.to).find(({ key }) => isSame(key, leaf.key))
  const isSameValue = own?.value !== undefined && isSame(own.value, leaf.value)
  if (entries.length === 0 && own === undefined) return leaf
  if (entries.length === 1 && isSameValue && own.storage === leaf.storage) return leaf
  replace(trie, leaf, { key: leaf.key, depth: leaf.start })
  if (own === undefined) {
    const after = entries.findIndex(({ key }) => Buffer.compare(key, leaf.key) > 0)
    entries.splice(after === -1 ? entries.length : after, 0, leaf)
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
      if (child.reference === undefined) node.reference = undefined
      return node
    }
    replace(trie, node, place)
    return prepend(trie, node.path, updated)
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
  return prepend(trie, node.path.slice(0, shared), updated)
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
    const child = isPresent ? trie.child(branch, nibble, { key, depth: depth + 1 }) : undefined
    const updated = update(trie, child, { changes, from, to: end, depth: depth + 1 })
    if (updated !== child || (updated !== undefined && updated.reference === undefined)) {
      if (branch.owner !== trie.owner)
        branch = copyBranch(branch, trie.owner, rowBefore(trie, branch))
      setChild(branch, nibble, updated)
    }
    from = end
  }
  return branch === node && branch.reference !== undefined
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
  return prepend(trie, Uint8Array.of(nibble), child)
}

/** A branch with one child: that of `from`, in memory or not, or one that the caller sets. */
function branchAbove({ owner, seen }: Trie, nibble: number, from: Extension | undefined): Branch {
  const branch = newBranch(owner, seen)
  if (from?.child !== undefined) setChild(branch, nibble, from.child)
  else if (from !== undefined) {
    branch.present = 1 << nibble
    branch.raw = rawBranch(nibble, childHash(from, 0))
  }
  return branch
}

/** The node with a longer path. */
function prepend(trie: Trie, path: Bytes, node: TrieNode | undefined): TrieNode | undefined {
  if (node === undefined || path.length === 0) return node
  if (node.kind === 'branch') return extendTo(trie, path, node)
  if (node.kind === 'leaf')
    return newLeaf(trie.owner, node, { start: node.start - path.length, seen: trie.seen })
  const whole = new Uint8Array(path.length + node.path.length)
  whole.set(path)
  whole.set(node.path, path.length)
  return newExtension(trie.owner, whole, node)
}

const extendTo = ({ owner, seen }: Trie, path: Bytes, child: Branch): Extension =>
  newExtension(owner, path, { child, raw: NO_RAW, seen })

/** A subtree of entries that share the first `depth` nibbles. */
function build(trie: Trie, entries: readonly Entry[], depth: number): TrieNode | undefined {
  const [first] = entries
  if (first === undefined) return undefined
  const { owner, seen } = trie
  if (entries.length === 1) return newLeaf(owner, first, { start: depth, seen })
  const last = entries[entries.length - 1]!
  let at = depth
  while (nibbleAt(first.key, at) === nibbleAt(last.key, at)) at++
  const branch = newBranch(owner, seen)
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
  return node.reference!.length === 32 ? node.raw : undefined
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

const isSame = (a: Bytes, b: Bytes): boolean => Buffer.compare(a, b) === 0
