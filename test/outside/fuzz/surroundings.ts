/**
 * Every piece of a program gets these: random numbers, callable addresses, and the writer of
 * further programs.
 */
import type { Bytes, Hex } from '../../../engine/primitives/bytes.ts'
import type { Dice } from '../cost/random.ts'
import type { Draft } from './draft.ts'
import { word } from './operands.ts'
import type { PrecompileInputs } from './precompile-inputs.ts'

export type Surroundings = {
  readonly dice: Dice
  readonly addresses: readonly Hex[]
  readonly precompiles: PrecompileInputs
  /** The depth to which programs may contain further ones, as init code. */
  readonly nesting: number
  program(around: Surroundings, pieces: number): Bytes
}

/** A family writes one kind of piece. */
export type Family = (draft: Draft, around: Surroundings) => void

/** Draws an address, sometimes with non-zero bits above its 20 bytes. */
export function addressOf({ dice, addresses }: Surroundings): bigint {
  const address = BigInt(dice.pick(addresses))
  return dice.chance(0.07) ? address | BigInt.asUintN(256, word(dice) << 160n) : address
}
