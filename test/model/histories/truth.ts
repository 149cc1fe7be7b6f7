/** The plain truth beside the real views: blocks in memory, each with the world after each of its flashblocks. */
import type { ExecutedTransaction } from '../../../engine/execution/transaction/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Header } from '../../../engine/primitives/header.ts'
import { latin1 } from '../../../engine/state/words.ts'
import type { World } from '../../fixtures/view-blocks.ts'

export type Prefix = {
  readonly world: World
  /** All of the block so far. */
  readonly executed: readonly ExecutedTransaction[]
  readonly hash: Bytes
}
export type Node = {
  readonly number: number
  readonly parent: Node | undefined
  /** After each flashblock; one when it came whole. */
  readonly prefixes: Prefix[]
  /** Known when all is there. */
  final: { readonly header: Header; readonly hash: Bytes } | undefined
  /** The store keeps the hashes that it had between flashblocks. */
  readonly isMomentaryKept: boolean
}

export const lastOf = (node: Node): Prefix => node.prefixes.at(-1)!
export const worldOf = (node: Node): World => lastOf(node).world

/** What a record shows, and for how long that must hold. */
export type Shown = {
  readonly canonical: Node
  readonly complete: Node
  readonly pending: Node
  /** Newest flashblock of pending; undefined: it is there to the end. */
  readonly index: number | undefined
  readonly base: Node
  readonly safe: number
  readonly finalized: number
  /** Unfolds that the writer knew of: after a further one this record may answer "void". */
  readonly unfolds: number
}

/** Every block that ever was, by its final hash and by the ids it had in this run of the process. */
export class Chain {
  readonly nodes: Node[] = []
  readonly transactions: ExecutedTransaction[] = []
  /** Put back into tables by this run of the process: nothing is in them of what they were between flashblocks. */
  recovered = new Set<Node>()
  readonly #byHash = new Map<string, Node>()
  #byId = new Map<number, Node>()

  begin(parent: Node, isMomentaryKept: boolean): Node {
    return { number: parent.number + 1, parent, prefixes: [], final: undefined, isMomentaryKept }
  }
  finish(node: Node, header: Header, hash: Bytes): void {
    node.final = { header, hash }
    this.nodes.push(node)
    this.#byHash.set(latin1(hash), node)
  }
  /** A block of this name. */
  name(id: number, node: Node): void {
    this.#byId.set(id, node)
  }
  /** Names are those of one run of the process. */
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

/** The block of a height on the chain of `top`. */
export function ancestorAt(top: Node, number: number): Node | undefined {
  let at: Node | undefined = top
  while (at !== undefined && at.number > number) at = at.parent
  return at?.number === number ? at : undefined
}
export const isAncestor = (ancestor: Node, of: Node): boolean =>
  ancestorAt(of, ancestor.number) === ancestor

/** Where a transaction is on the chain of `top`, whose flashblocks count up to `index`. */
export function placeOf(
  top: Node,
  index: number | undefined,
  hash: Bytes,
): { readonly node: Node; readonly at: number } | undefined {
  for (let node: Node | undefined = top; node !== undefined; node = node.parent) {
    const { executed } = node === top ? shownPrefix(node, index) : lastOf(node)
    // The very bytes of the transaction that was made: no two have one hash.
    for (const [at, { transaction }] of executed.entries())
      if (transaction.hash === hash) return { node, at }
  }
  return undefined
}

export const shownPrefix = (node: Node, index: number | undefined): Prefix =>
  index === undefined ? lastOf(node) : node.prefixes[index]!
