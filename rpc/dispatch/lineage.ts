/**
 * A head as answers follow it: at which step each key and each field of its block changed last, so that an answer of an older step is known
 * to hold, or not. A step is a place of the head that somebody has asked at.
 */
import type { ChainView, Endpoint, HeadBasis, HeadMark } from '../../engine/chain/types.ts'
import type { ChainSpec, Rules } from '../../engine/chainspec/types.ts'
import { BLOCK_FIELDS, changedFields } from '../../engine/evm/block-fields.ts'
import type { BlockEnv } from '../../engine/evm/engine.ts'
import type { Reads } from '../../engine/state/reads.ts'

/** Why an answer does not hold: a key was written, the block is another one, or the chain is. */
export type Change = 'written' | 'block' | 'chain'

/**
 * Keys share a stamp by 19 bits of their hash (2 MB): of 250 that a flashblock writes, one in a hundred answers with 20 reads meets a stamp
 * that is not of a key of its own, and is computed again.
 */
const STAMPS = 2 ** 19

type Seen = {
  readonly record: number
  readonly key: string
  readonly mark: HeadMark
  readonly env: BlockEnv
  readonly rules: Rules
}

export class Lineage {
  readonly basis: HeadBasis
  /** For keys of a cache: another one for each lineage. */
  readonly name: string
  /** Made at the first use. */
  #stamps: Uint32Array | undefined
  readonly #fields: number[] = Object.values(BLOCK_FIELDS).map(() => 0)
  /** Answers of before are of another chain. */
  #first = 1
  #step = 1
  #seen: Seen | undefined

  constructor(endpoint: Endpoint, basis: HeadBasis) {
    this.basis = basis
    this.name = `${endpoint} ${basis} of`
  }

  /**
   * Of the view's head; undefined: the head has been seen further on.
   * @throws {ViewError}
   */
  stepOf(view: ChainView, chain: Pick<ChainSpec, 'rulesAt'>): number | undefined {
    const seen = this.#seen
    if (seen?.record === view.record) return this.#step
    const key = view.cacheKey(this.basis)
    if (seen !== undefined && seen.key === key) {
      if (view.record > seen.record) this.#seen = { ...seen, record: view.record }
      return this.#step
    }
    if (seen !== undefined && view.record < seen.record) return undefined
    // Whatever fails now, nothing of before holds.
    this.#seen = undefined
    const first = this.#first
    this.#first = ++this.#step
    const next = this.#look(view, key, chain)
    if (seen !== undefined && this.#compare(seen, next, view)) this.#first = first
    this.#seen = next
    return this.#step
  }

  /** Whether what a run read at an older step is so still; undefined: it is. */
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

  #look(view: ChainView, key: string, chain: Pick<ChainSpec, 'rulesAt'>): Seen {
    const block = view.block({ tag: this.basis })
    if (block === undefined) throw new Error(`rpc: a view has no ${this.basis} block`)
    const env = view.env(block)
    const rules = chain.rulesAt(env.number, env.timestamp)
    return { record: view.record, key, mark: view.markOf(this.basis), env, rules }
  }

  #compare(seen: Seen, next: Seen, view: ChainView): boolean {
    const stamps = this.#stamps ?? new Uint32Array(STAMPS)
    this.#stamps = stamps
    const step = this.#step
    const tell = (hash: number) => {
      stamps[hash & (STAMPS - 1)] = step
    }
    if (!view.changesSince(seen.mark, this.basis, tell)) return false
    const changed =
      changedFields(seen.env, next.env) | (seen.rules === next.rules ? 0 : BLOCK_FIELDS.rules)
    for (const bit of this.#fields.keys())
      if ((changed & (1 << bit)) !== 0) this.#fields[bit] = step
    return true
  }
}
