/**
 * What an answer depends on, told from the parameters as they came: the chain up to one head, or where all heads stand. An answer of the
 * latest block is as good after the next flashblock. Whatever is not clearly one head is `heads`.
 */
import type { Basis, ChainView, HeadBasis } from '../../engine/chain/types.ts'
import { hexToBytes } from '../../engine/primitives/hex.ts'
import type { About } from '../seam/about.ts'

export type BasisOf = (view: ChainView, params: readonly unknown[]) => Basis

/** The head whose state and block alone decide the answer, as its worker can tell what of them; undefined: another block. */
export type Follows = (params: readonly unknown[]) => HeadBasis | undefined

/** @param about names the parameter of the block; @param overrides that which says what else its fields are */
export const followsBlock =
  ({ at, whenLeftOut = 'latest' }: Pick<About, 'at' | 'whenLeftOut'>, overrides: number): Follows =>
  (params) => {
    if ((params[overrides] ?? null) !== null) return undefined
    const wire = params[at] ?? whenLeftOut
    return wire === 'latest' || wire === 'pending' ? wire : undefined
  }

export const onLatest: BasisOf = () => 'latest'

/** Of a method whose answer is about the block that a parameter names. */
export const onBlock =
  ({ at, whenLeftOut = 'latest' }: Pick<About, 'at' | 'whenLeftOut'>): BasisOf =>
  (view, params) =>
    ofBlock(view, params[at] ?? whenLeftOut)

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
