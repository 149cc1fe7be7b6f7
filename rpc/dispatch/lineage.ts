/**
 * Changes of a head, for responses that follow it. A lineage knows the last step at which each key
 * and block field changed. An older response is thus known to be valid or not. A step is a state of
 * the head that a call has read.
 */
import type { ChainView, Endpoint, HeadBasis, HeadMark } from '../../engine/chain/types.ts'
import type { ChainSpec, Rules } from '../../engine/chainspec/types.ts'
import { BLOCK_FIELDS, changedFields } from '../../engine/evm/block-fields.ts'
import type { BlockEnv } from '../../engine/evm/engine.ts'
import type { Reads } from '../../engine/state/reads.ts'

/** Reason why a response is invalid: a key was written, the block changed, or the chain changed. */
export type Change = 'written' | 'block' | 'chain'

/**
 * Number of stamps (2 MB). Keys with the same 19 hash bits share a stamp. A flashblock writes 250
 * keys, so about 1% of responses with 20 reads are recomputed needlessly.
 */
const STAMPS = 2 ** 19

type Seen = {
  readonly snapshot: number
  readonly key: string
  readonly mark: HeadMark
  readonly env: BlockEnv
  readonly rules: Rules
}

export class Lineage {
  readonly basis: HeadBasis
  /** Part of cache keys, different for each lineage. */
  readonly name: string
  /** Created at the first use. */
  #stamps: Uint32Array | undefined
  readonly #fields: number[] = Object.values(BLOCK_FIELDS).map(() => 0)
  /** First step of this chain. Responses of earlier steps belong to another chain. */
  #first = 1
  #step = 1
  #seen: Seen | undefined

  constructor(endpoint: Endpoint, basis: HeadBasis) {
    this.basis = basis
    this.name = `${endpoint} ${basis} of`
  }

  /**
   * Returns the step of the view's head. undefined: the lineage has seen a newer head.
   * @throws {ViewError}
   */
  stepOf(view: ChainView, chain: Pick<ChainSpec, 'rulesAt'>): number | undefined {
    const seen = this.#seen
    if (seen?.snapshot === view.snapshot) return this.#step
    const key = view.cacheKey(this.basis)
    if (seen !== undefined && seen.key === key) {
      if (view.snapshot > seen.snapshot) this.#seen = { ...seen, snapshot: view.snapshot }
      return this.#step
    }
    if (seen !== undefined && view.snapshot < seen.snapshot) return undefined
    // An error below must leave all earlier responses invalid.
    this.#seen = undefined
    const first = this.#first
    this.#first = ++this.#step
    const next = this.#find(view, key, chain)
    if (seen !== undefined && this.#compare(seen, next, view)) this.#first = first
    this.#seen = next
    return this.#step
  }

  /** Compares the reads of an older step with the present. undefined: none of them has changed. */
  changeOf({ keys, fields }: Reads, step: number): Change | undefined {
    if (step < this.#first) return 'chain'
    for (let bit = 0; bit < this.#fields.length; bit++)
      if (this.#fields[bit]! > step && (fields & (1 << bit)) !== 0) return 'block'
    const stamps = this.#stamps
    if (stamps === undefined) return undefined
    for (let at = 0; at < keys.length; at++)
      if (stamps[keys[at]! & (STAMPS - 1)]! > step) return 'written'
    return undefined
  }

  #find(view: ChainView, key: string, chain: Pick<ChainSpec, 'rulesAt'>): Seen {
    const block = view.block({ tag: this.basis })
    if (block === undefined) throw new Error(`rpc: a view has no ${this.basis} block`)
    const env = view.env(block)
    const rules = chain.rulesAt(env.number, env.timestamp)
    return { snapshot: view.snapshot, key, mark: view.markOf(this.basis), env, rules }
  }

  #compare(seen: Seen, next: Seen, view: ChainView): boolean {
    const stamps = this.#stamps ?? new Uint32Array(STAMPS)
    this.#stamps = stamps
    const step = this.#step
    const onChange = (hash: number) => {
      stamps[hash & (STAMPS - 1)] = step
    }
    if (!view.changesSince(seen.mark, this.basis, onChange)) return false
    const changed =
      changedFields(seen.env, next.env) | (seen.rules === next.rules ? 0 : BLOCK_FIELDS.rules)
    for (const bit of this.#fields.keys())
      if ((changed & (1 << bit)) !== 0) this.#fields[bit] = step
    return true
  }
}
