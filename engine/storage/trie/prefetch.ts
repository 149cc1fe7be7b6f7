/**
 * Loads the stored nodes on the paths of an update's keys. One read loads the missing nodes of one
 * level of all tries.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { nibbleAt } from '../../primitives/trie-root.ts'
import { inlineChild } from './codec.ts'
import { type Branch, bitCount, childAt, type Extension, type TrieNode } from './node.ts'
import type { TrieSpace } from './rows.ts'

/** One trie, and the hashed keys that an update changes in it. */
export type Route = {
  readonly space: TrieSpace
  readonly root: TrieNode | undefined
  /** Sorted keys of 32 bytes. */
  readonly keys: readonly Bytes[]
  /**
   * Guesses the RLP of the value that the trie has for `keys[at]` before the update. undefined: the
   * diff does not know it.
   */
  valueBefore(at: number): Bytes | undefined
}
/** Keys from `from` to `to` (exclusive). They share the path to a node, of `depth` nibbles. */
type Span = {
  readonly route: Route
  readonly from: number
  readonly to: number
  readonly depth: number
}
type Step = Span & { readonly node: TrieNode }
/**
 * A child that is only in the database, and the keys that lead to it. `nibble` is the child's index
 * in a branch, and 0 in an extension.
 */
export type Absent = Span & { readonly parent: Branch | Extension; readonly nibble: number }

/** Loads absent nodes. Both methods link the nodes to their parents. */
export type Source = {
  /**
   * Loads nodes from the database, or from a cache.
   * @returns the nodes in the order of `absent`
   * @throws {TrieError} if a node is not in the database, or has another hash
   */
  load(absent: readonly Absent[]): readonly TrieNode[]
  /**
   * Builds the leaf of the only key with this value, without a read. The leaf is linked if its hash
   * is the one in the parent.
   * @returns false if the child is another node
   */
  recall(absent: Absent, value: Bytes): boolean
}

/** Returns the first key of a span. The path of the span's node is the start of this key. */
export const keyOf = ({ route, from }: Span): Bytes => route.keys[from]!

/**
 * Loads the nodes on the paths of all keys into memory, so that an update finds them there. Other
 * children of these nodes are not loaded.
 * @throws {TrieError}
 */
export function prefetch(routes: readonly Route[], source: Source): void {
  let level: Step[] = []
  for (const route of routes)
    if (route.root !== undefined && route.keys.length > 0)
      level.push({ route, from: 0, to: route.keys.length, depth: 0, node: route.root })
  while (level.length > 0) {
    const next: Step[] = []
    const absent: Absent[] = []
    for (const step of level)
      if (step.node.kind === 'branch') throughBranch(step, step.node, { next, absent, source })
      else if (step.node.kind === 'extension')
        throughExtension(step, step.node, { next, absent, source })
    if (absent.length > 0)
      for (const [at, node] of source.load(absent).entries()) {
        if (node.kind === 'leaf') continue
        const { route, from, to, depth } = absent[at]!
        next.push({ route, from, to, depth, node })
      }
    level = next
  }
}

/**
 * Largest number of children of a branch, without inline ones, at which a leaf is guessed. Hashed
 * keys are spread evenly. If a branch has p of 16 children, a child is thus a leaf with probability
 * 1 − p/16. A wrong guess costs about a third of a read, and 1 − 11/16 is about a third.
 */
const MAX_CHILDREN = 11

/** Children found at one level: in memory (`next`), or only in the database (`absent`). */
type Found = {
  readonly next: Step[]
  readonly absent: Absent[]
  readonly source: Source
}

/** Splits a step's keys by their nibble, and adds the children that they lead to. */
function throughBranch(step: Step, branch: Branch, { next, absent, source }: Found): void {
  const { route, to } = step
  const { keys } = route
  const depth = step.depth + 1
  const mayHaveLeaves = bitCount(branch.present & ~branch.inlined) <= MAX_CHILDREN
  for (let from = step.from; from < to; ) {
    const nibble = nibbleAt(keys[from]!, step.depth)
    let end = from + 1
    while (end < to && nibbleAt(keys[end]!, step.depth) === nibble) end++
    if ((branch.present & (1 << nibble)) !== 0) {
      const node = childAt(branch, nibble) ?? inlineChild(branch, nibble, depth)
      if (node === undefined) {
        const child: Absent = { route, from, to: end, depth, parent: branch, nibble }
        const value = mayHaveLeaves && end - from === 1 ? route.valueBefore(from) : undefined
        if (value === undefined || !source.recall(child, value)) absent.push(child)
      } else if (node.kind !== 'leaf') next.push({ route, from, to: end, depth, node })
    }
    from = end
  }
}

/**
 * Adds the extension's child, if keys lead to it. These keys are adjacent, because all keys are
 * sorted.
 */
function throughExtension(step: Step, extension: Extension, { next, absent }: Found): void {
  const { route } = step
  const { keys } = route
  const isOnPath = (key: Bytes) =>
    extension.path.every((nibble, at) => nibbleAt(key, step.depth + at) === nibble)
  let { from, to } = step
  while (from < to && !isOnPath(keys[from]!)) from++
  while (to > from && !isOnPath(keys[to - 1]!)) to--
  if (from >= to) return
  const depth = step.depth + extension.path.length
  const node = extension.child
  if (node === undefined) absent.push({ route, from, to, depth, parent: extension, nibble: 0 })
  else if (node.kind !== 'leaf') next.push({ route, from, to, depth, node })
}
