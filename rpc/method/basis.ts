/**
 * Determines, from the raw parameters, whether a response depends on the chain up to one head or on
 * all heads. A response about the latest block is still valid after the next flashblock. Without
 * one clear head the basis is `heads`.
 */
import type { Basis, ChainView, HeadBasis } from '../../engine/chain/types.ts'
import { hexToBytes } from '../../engine/primitives/hex.ts'
import type { About } from '../core/about.ts'

export type BasisOf = (view: ChainView, params: readonly unknown[]) => Basis

/**
 * The head whose state and block alone determine the response; undefined for any other block. The
 * worker can list what it reads of them.
 */
export type Follows = (params: readonly unknown[]) => HeadBasis | undefined

/**
 * Creates a `Follows` from the declared parameters.
 * @param overrides index of the parameter with block overrides, which must be absent
 */
export const followsBlock =
  ({ at, whenLeftOut = 'latest' }: Pick<About, 'at' | 'whenLeftOut'>, overrides: number): Follows =>
  (params) => {
    if ((params[overrides] ?? null) !== null) return undefined
    const wire = params[at] ?? whenLeftOut
    return wire === 'latest' || wire === 'pending' ? wire : undefined
  }

export const onLatest: BasisOf = () => 'latest'

/** Creates the basis of a method whose response is about the block in a parameter. */
export const onBlock =
  ({ at, whenLeftOut = 'latest' }: Pick<About, 'at' | 'whenLeftOut'>): BasisOf =>
  (view, params) =>
    ofBlock(view, params[at] ?? whenLeftOut)

export function ofBlock(view: ChainView, wire: unknown): Basis {
  if (wire === 'latest' || wire === 'pending') return wire
  if (typeof wire !== 'string') return 'heads'
  if (HASH.test(wire)) {
    const block = view.block({ hash: hexToBytes(wire), requireCanonical: false })
    /*
     * The payload of a prefix, or of a block above latest, may disappear. A block that is missing
     * may still arrive.
     */
    const isLasting = block !== undefined && block.flashblockIndex === undefined
    return isLasting && block.number <= view.latest.number ? 'latest' : 'heads'
  }
  // A block at or below latest is one of its ancestors.
  return NUMBER.test(wire) && BigInt(wire) <= view.latest.number ? 'latest' : 'heads'
}
const HASH = /^0x[0-9a-fA-F]{64}$/
const NUMBER = /^0x[0-9a-fA-F]{1,16}$/
