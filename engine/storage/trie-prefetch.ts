/** Brings the stored nodes that an update will walk over into memory, a level of all tries at a time: one read for many nodes. */
import type { Bytes } from '../primitives/bytes.ts'
import { nibbleAt } from '../primitives/trie-root.ts'
import { bitCount } from './trie-codec.ts'
import type { Branch, Extension, Place, TrieNode } from './trie-node.ts'
import type { TrieSpace } from './trie-rows.ts'

/** One trie and where an update of it will go. */
export type Route = {
  readonly space: TrieSpace
  readonly root: TrieNode | undefined
  /** Sorted. */
  readonly keys: readonly Bytes[]
  /** RLP that the leaf of a key probably has; undefined: nothing is known of it. */
  valueBefore(at: number): Bytes | undefined
}
/** A child that is in the database only. */
export type Absent = {
  readonly space: TrieSpace
  readonly parent: Branch | Extension
  readonly nibble: number
  readonly place: Place
}

/** How absent nodes come into memory: both keep them in their parents. */
export type Source = {
  load(absent: readonly Absent[]): readonly TrieNode[]
  /** False: it is not the leaf of its place's key with this value. */
  recall(absent: Absent, value: Bytes): boolean
}

export function prefetch(routes: readonly Route[], { load, recall }: Source): void {
  let level: Step[] = []
  for (const route of routes)
    if (route.root !== undefined && route.keys.length > 0)
      level.push({ route, node: route.root, from: 0, to: route.keys.length, depth: 0 })
  while (level.length > 0) {
    const next: Step[] = []
    const absent: Absent[] = []
    const behind: Omit<Step, 'node'>[] = []
    const go = (parent: Branch | Extension, nibble: number, to: Omit<Step, 'node'>) => {
      const node = parent.kind === 'branch' ? parent.children[nibble] : parent.child
      if (node !== undefined) {
        if (node.kind !== 'leaf') next.push({ ...to, node })
        return
      }
      const { route, from, depth } = to
      const child: Absent = {
        space: route.space,
        parent,
        nibble,
        place: { key: route.keys[from]!, depth },
      }
      const value = mayBeLeaf(parent, to) ? route.valueBefore(from) : undefined
      if (value !== undefined && recall(child, value)) return
      absent.push(child)
      behind.push(to)
    }
    for (const step of level)
      if (step.node.kind === 'branch') throughBranch(step, step.node, go)
      else if (step.node.kind === 'extension') throughExtension(step, step.node, go)
    if (absent.length > 0)
      for (const [at, node] of load(absent).entries())
        if (node.kind !== 'leaf') next.push({ ...behind[at]!, node })
    level = next
  }
}

/**
 * Below a branch with p of its 16 children a hashed key has the next slot to itself with a chance of 1 − p/16: a lost try costs about a
 * third of a read.
 */
const mayBeLeaf = (parent: Branch | Extension, { from, to }: Omit<Step, 'node'>): boolean =>
  to - from === 1 && parent.kind === 'branch' && bitCount(parent.present) <= MOST_SIBLINGS
const MOST_SIBLINGS = 11

/** Keys of a trie that share the way to a node. */
type Step = {
  readonly route: Route
  readonly node: TrieNode
  readonly from: number
  readonly to: number
  readonly depth: number
}
type Go = (parent: Branch | Extension, nibble: number, to: Omit<Step, 'node'>) => void

function throughBranch(step: Step, branch: Branch, go: Go): void {
  const { route, to, depth } = step
  const { keys } = route
  for (let from = step.from; from < to; ) {
    const nibble = nibbleAt(keys[from]!, depth)
    let end = from + 1
    while (end < to && nibbleAt(keys[end]!, depth) === nibble) end++
    if ((branch.present & (1 << nibble)) !== 0)
      go(branch, nibble, { route, from, to: end, depth: depth + 1 })
    from = end
  }
}

/** Keys on the path stand together, because they are sorted. */
function throughExtension(step: Step, extension: Extension, go: Go): void {
  const { route, depth } = step
  const { keys } = route
  const isOnPath = (key: Bytes) =>
    extension.path.every((nibble, at) => nibbleAt(key, depth + at) === nibble)
  let { from, to } = step
  while (from < to && !isOnPath(keys[from]!)) from++
  while (to > from && !isOnPath(keys[to - 1]!)) to--
  if (from < to) go(extension, 0, { route, from, to, depth: depth + extension.path.length })
}
