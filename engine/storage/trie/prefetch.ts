/**
 * Loads the stored nodes on the way of an update, one level of all tries at a time. One read loads
 * many nodes.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { nibbleAt } from '../../primitives/trie-root.ts'
import { inlineChild } from './codec.ts'
import { type Branch, bitCount, childAt, type Extension, type TrieNode } from './node.ts'
import type { TrieSpace } from './rows.ts'

/** One trie, and the keys of an update. */
export type Route = {
  readonly space: TrieSpace
  readonly root: TrieNode | undefined
  /** Sorted. */
  readonly keys: readonly Bytes[]
  /** Probable RLP of the leaf's value; undefined if the diff does not know it. */
  valueBefore(at: number): Bytes | undefined
}
/** Keys of a trie that share the path to a node. */
type Span = {
  readonly route: Route
  readonly from: number
  readonly to: number
  readonly depth: number
}
type Step = Span & { readonly node: TrieNode }
/** A child that is only in the database, and the keys that lead to it. */
export type Absent = Span & { readonly parent: Branch | Extension; readonly nibble: number }

/** Loads absent nodes. Both methods link the nodes to their parents. */
export type Source = {
  load(absent: readonly Absent[]): readonly TrieNode[]
  /**
   * Makes the leaf from its value; false if the child is not the leaf of its key with this value.
   */
  recall(absent: Absent, value: Bytes): boolean
}

/** First key of a span, which starts with the path of the node. */
export const keyOf = ({ route, from }: Span): Bytes => route.keys[from]!

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
 * Largest number of children at which a leaf is guessed. Below a branch with p of 16 children, a
 * hashed key is alone in its nibble with probability 1 − p/16. A wrong guess costs about a third of
 * a read.
 */
const MAX_SIBLINGS = 11

type Found = {
  readonly next: Step[]
  readonly absent: Absent[]
  readonly source: Source
}

function throughBranch(step: Step, branch: Branch, { next, absent, source }: Found): void {
  const { route, to } = step
  const { keys } = route
  const depth = step.depth + 1
  const mayHaveLeaves = bitCount(branch.present & ~branch.inlined) <= MAX_SIBLINGS
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

/** Keys on the path are adjacent, because they are sorted. */
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
