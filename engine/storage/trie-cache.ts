/** Which stored nodes stay in memory: those used lately, and the longer the more stands below them. */
import { bitCount, hasRow } from './trie-codec.ts'
import { keepChild, type TrieNode } from './trie-node.ts'

export type Keep = {
  readonly epoch: number
  /** How long a full branch stays unused; others in proportion to their children, leaves and extensions as if they had one. */
  readonly epochs: number
  /** Of nodes that stay, how many need at least so many `epochs`; the last place is for all above. Counted up. */
  readonly needs: Uint32Array
}

export const newNeeds = (): Uint32Array => new Uint32Array(MOST_EPOCHS + 1)
export const MOST_EPOCHS = 1_024

/** The most epochs that keep no more than `nodes` of those counted. */
export function epochsFor(needs: Uint32Array, nodes: number): number {
  let epochs = -1
  for (let kept = 0; epochs + 1 < MOST_EPOCHS; epochs++) {
    kept += needs[epochs + 1]!
    if (kept > nodes) break
  }
  return Math.max(0, epochs)
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
    const need = epochsNeeded(node, keep.epoch)
    const isOld = need > keep.epochs && canBeRead(node)
    if (!isOld || below > 0) keep.needs[Math.min(need, MOST_EPOCHS)]!++
    const kept = isOld && below === 0 ? 0 : below + 1
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
  if (node.kind === 'leaf') node.storage = undefined
  else keepChild(node, at - 1, undefined)
}

/** The least `Keep.epochs` with which the node stays. */
function epochsNeeded(node: TrieNode, epoch: number): number {
  const age = 16 * (epoch - node.seen)
  if (age === 0 || node.kind !== 'branch') return age
  return Math.ceil(age / bitCount(node.present))
}

/** A short node is in no row of its own. */
const canBeRead = (node: TrieNode): boolean => node.owner.isStored && node.isEncoded && hasRow(node)
