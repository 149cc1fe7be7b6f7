/**
 * The truth beside the real views: blocks in memory, each with the world after each of its
 * flashblocks.
 */
import type { ExecutedTransaction } from '../../../engine/execution/transaction/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Header } from '../../../engine/primitives/header.ts'
import { latin1 } from '../../../engine/state/words.ts'
import type { World } from '../../fixtures/view-blocks.ts'

export type Prefix = {
  readonly world: World
  /** All transactions of the block so far. */
  readonly executed: readonly ExecutedTransaction[]
  readonly hash: Bytes
}
export type Node = {
  readonly number: number
  readonly parent: Node | undefined
  /** One entry after each flashblock; a full block has one entry. */
  readonly prefixes: Prefix[]
  /** Known from the end of the block on. */
  final: { readonly header: Header; readonly hash: Bytes } | undefined
  /** The store keeps the hashes that the block had between flashblocks. */
  readonly isPartialRetained: boolean
}

export const lastOf = (node: Node): Prefix => node.prefixes.at(-1)!
export const worldOf = (node: Node): World => lastOf(node).world

/** Heads of a snapshot, and the unwind count up to which the view must answer. */
export type VisibleState = {
  readonly canonical: Node
  readonly complete: Node
  readonly pending: Node
  /** Newest flashblock of pending; undefined: the block is finished. */
  readonly index: number | undefined
  readonly base: Node
  readonly safe: number
  readonly finalized: number
  /** Unwinds that the writer knew of. After a further one this snapshot may answer "void". */
  readonly unwinds: number
}

/** Every block that ever existed, by its final hash and by its ids in this run of the process. */
export class Chain {
  readonly nodes: Node[] = []
  readonly transactions: ExecutedTransaction[] = []
  /**
   * Blocks that this run of the process restored into diff layers, without their states between
   * flashblocks.
   */
  recovered = new Set<Node>()
  readonly #byHash = new Map<string, Node>()
  #byId = new Map<number, Node>()

  start(parent: Node, isPartialRetained: boolean): Node {
    return { number: parent.number + 1, parent, prefixes: [], final: undefined, isPartialRetained }
  }
  finish(node: Node, header: Header, hash: Bytes): void {
    node.final = { header, hash }
    this.nodes.push(node)
    this.#byHash.set(latin1(hash), node)
  }
  /** Names a block of this run. */
  name(id: number, node: Node): void {
    this.#byId.set(id, node)
  }
  /** Forgets the ids, because they belong to one run of the process. */
  restart(): void {
    this.#byId = new Map()
    this.recovered = new Set()
  }
  byHash(hash: Bytes): Node {
    const node = this.#byHash.get(latin1(hash))
    if (node === undefined) throw new Error('a block of this hash was never made')
    return node
  }
  find(id: number): Node | undefined {
    return this.#byId.get(id)
  }
  byId(id: number): Node {
    const node = this.#byId.get(id)
    if (node === undefined) throw new Error(`no block has the id ${id}`)
    return node
  }
}

/** Returns the block of a height on the chain of `top`. */
export function ancestorAt(top: Node, number: number): Node | undefined {
  let at: Node | undefined = top
  while (at !== undefined && at.number > number) at = at.parent
  return at?.number === number ? at : undefined
}
export const isAncestor = (ancestor: Node, of: Node): boolean =>
  ancestorAt(of, ancestor.number) === ancestor

/** Locates a transaction on the chain of `top`, whose flashblocks count up to `index`. */
export function locationOf(
  top: Node,
  index: number | undefined,
  hash: Bytes,
): { readonly node: Node; readonly at: number } | undefined {
  for (let node: Node | undefined = top; node !== undefined; node = node.parent) {
    const { executed } = node === top ? visiblePrefix(node, index) : lastOf(node)
    // The objects are compared by identity, because no two transactions have one hash.
    for (const [at, { transaction }] of executed.entries())
      if (transaction.hash === hash) return { node, at }
  }
  return undefined
}

export const visiblePrefix = (node: Node, index: number | undefined): Prefix =>
  index === undefined ? lastOf(node) : node.prefixes[index]!
