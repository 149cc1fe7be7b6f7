/** Brings the stored nodes that an update will walk over into memory, a level of all tries at a time: one read for many nodes. */
import type { Bytes } from '../primitives/bytes.ts'
import { nibbleAt } from '../primitives/trie-root.ts'
import type { Branch, Extension, Place, TrieNode } from './trie-node.ts'
import type { TrieSpace } from './trie-rows.ts'

/** One trie and where an update of it will go. */
export type Route = {
  readonly space: TrieSpace
  readonly root: TrieNode | undefined
  /** Sorted. */
  readonly keys: readonly Bytes[]
}
/** A child that is in the database only. */
export type Absent = {
  readonly space: TrieSpace
  readonly parent: Branch | Extension
  readonly nibble: number
  readonly place: Place
}

/** `load`: the nodes of these places, kept in their parents. */
export function prefetch(
  routes: readonly Route[],
  load: (absent: readonly Absent[]) => readonly TrieNode[],
): void {
  let level: Step[] = []
  for (const { space, root, keys } of routes)
    if (root !== undefined && keys.length > 0)
      level.push({ space, node: root, keys, from: 0, to: keys.length, depth: 0 })
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
      absent.push({
        space: to.space,
        parent,
        nibble,
        place: { key: to.keys[to.from]!, depth: to.depth },
      })
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

/** Keys of a trie that share the way to a node. */
type Step = {
  readonly space: TrieSpace
  readonly node: TrieNode
  readonly keys: readonly Bytes[]
  readonly from: number
  readonly to: number
  readonly depth: number
}
type Go = (parent: Branch | Extension, nibble: number, to: Omit<Step, 'node'>) => void

function throughBranch(step: Step, branch: Branch, go: Go): void {
  const { space, keys, to, depth } = step
  for (let from = step.from; from < to; ) {
    const nibble = nibbleAt(keys[from]!, depth)
    let end = from + 1
    while (end < to && nibbleAt(keys[end]!, depth) === nibble) end++
    if ((branch.present & (1 << nibble)) !== 0)
      go(branch, nibble, { space, keys, from, to: end, depth: depth + 1 })
    from = end
  }
}

/** Keys on the path stand together, because they are sorted. */
function throughExtension(step: Step, extension: Extension, go: Go): void {
  const { space, keys, depth } = step
  const isOnPath = (key: Bytes) =>
    extension.path.every((nibble, at) => nibbleAt(key, depth + at) === nibble)
  let { from, to } = step
  while (from < to && !isOnPath(keys[from]!)) from++
  while (to > from && !isOnPath(keys[to - 1]!)) to--
  if (from < to) go(extension, 0, { space, keys, from, to, depth: depth + extension.path.length })
}
