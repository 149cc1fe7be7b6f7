/** Which stored nodes stay in memory: those used lately, and the longer the more stands below them. */
import type { TrieNode } from './trie-node.ts'

export type Keep = {
  readonly epoch: number
  /** How long a full branch stays unused; others in proportion to their children, leaves and extensions as if they had one. */
  readonly epochs: number
}

/**
 * Drops stored nodes below this one that were not used for long: they can be read again. Returns how many stay, 0: not even this one
 * needs to.
 */
export function trim(node: TrieNode, keep: Keep): number {
  let below = 0
  if (node.kind === 'branch') {
    const { children } = node
    for (let nibble = 0; nibble < 16; nibble++) {
      const child = children[nibble]
      if (child === undefined) continue
      const kept = trim(child, keep)
      if (kept === 0) children[nibble] = undefined
      below += kept
    }
  } else if (node.kind === 'extension') {
    if (node.child !== undefined) below = trim(node.child, keep)
    if (below === 0) node.child = undefined
  } else if (node.storage !== undefined) {
    below = trim(node.storage, keep)
    if (below === 0) node.storage = undefined
  }
  return below === 0 && isOld(node, keep) ? 0 : below + 1
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
