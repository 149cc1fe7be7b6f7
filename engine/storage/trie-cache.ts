/** Which stored nodes stay in memory: those used lately, and the longer the more stands below them. */
import type { TrieNode } from './trie-node.ts'

export type Keep = {
  readonly epoch: number
  /** How long a full branch stays unused; others in proportion to their children, leaves and extensions as if they had one. */
  readonly epochs: number
}

/**
 * Drops stored nodes below this one that were not used for long: they can be read again. Returns how many stay, 0: not even this one
 * needs to. Each `next` looks at about a thousand; in between others may read nodes and use them, but replace none.
 */
export function* trim(root: TrieNode, keep: Keep): Generator<undefined, number> {
  const way: Visit[] = [{ node: root, at: 0, below: 0 }]
  for (let seen = 1; ; ) {
    const visit = way[way.length - 1]!
    const child = nextChild(visit)
    if (child !== undefined) {
      way.push({ node: child, at: 0, below: 0 })
      if (++seen % NODES_IN_STEP === 0) yield
      continue
    }
    way.pop()
    const { node, below } = visit
    const kept = below === 0 && isOld(node, keep) ? 0 : below + 1
    const parent = way[way.length - 1]
    if (parent === undefined) return kept
    if (kept === 0) dropChild(parent)
    parent.below += kept
  }
}

const NODES_IN_STEP = 1024

/** A node on the way to what is looked at. */
type Visit = {
  readonly node: TrieNode
  /** How many of its places for children were looked at. */
  at: number
  /** Nodes below that stay. */
  below: number
}

function nextChild(visit: Visit): TrieNode | undefined {
  const { node } = visit
  if (node.kind === 'branch') {
    while (visit.at < 16) {
      const child = node.children[visit.at++]
      if (child !== undefined) return child
    }
    return undefined
  }
  if (visit.at++ > 0) return undefined
  return node.kind === 'extension' ? node.child : node.storage
}

/** The one that was looked at last. */
function dropChild({ node, at }: Visit): void {
  if (node.kind === 'branch') node.children[at - 1] = undefined
  else if (node.kind === 'extension') node.child = undefined
  else node.storage = undefined
}

/** The age first: most nodes are young, and the rest of what is asked lies elsewhere in memory. */
function isOld(node: TrieNode, { epoch, epochs }: Keep): boolean {
  const age = 16 * (epoch - node.seen)
  if (age <= epochs) return false
  if (node.kind === 'branch' && age <= epochs * childCount(node.present)) return false
  // A short node is in no row of its own and cannot be read again.
  return node.owner.isStored && node.reference?.length === 32
}

function childCount(present: number): number {
  let count = 0
  for (let rest = present; rest !== 0; rest &= rest - 1) count++
  return count
}
