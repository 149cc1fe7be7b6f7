/**
 * What an answer depends on, told from the parameters as they came: the chain up to one head, or where all heads stand. An answer of the
 * latest block is as good after the next flashblock. Whatever is not clearly one head is `heads`.
 */
import type { Basis, ChainView } from '../../engine/chain/types.ts'
import { hexToBytes } from '../../engine/primitives/hex.ts'

export type BasisOf = (view: ChainView, params: readonly unknown[]) => Basis

export const onLatest: BasisOf = () => 'latest'

/** Of a method whose answer is about the block that parameter `at` names: latest when it is left out. */
export const onBlock =
  (at: number): BasisOf =>
  (view, params) =>
    ofBlock(view, params[at] ?? 'latest')

export function ofBlock(view: ChainView, wire: unknown): Basis {
  if (wire === 'latest' || wire === 'pending') return wire
  if (typeof wire !== 'string') return 'heads'
  if (HASH.test(wire)) {
    const block = view.block({ hash: hexToBytes(wire), requireCanonical: false })
    // A prefix, and a block above latest, is gone when its payload is; and one that is not there may come.
    const isLasting = block !== undefined && block.flashblockIndex === undefined
    return isLasting && block.number <= view.latest.number ? 'latest' : 'heads'
  }
  // A block at or below latest is one of its ancestors.
  return NUMBER.test(wire) && BigInt(wire) <= view.latest.number ? 'latest' : 'heads'
}
const HASH = /^0x[0-9a-fA-F]{64}$/
const NUMBER = /^0x[0-9a-fA-F]{1,16}$/
