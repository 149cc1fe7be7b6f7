/** What the pieces of a program know: dice, whom they may call, and how a further program is written. */
import type { Bytes, Hex } from '../../../engine/primitives/bytes.ts'
import type { Dice } from '../cost/random.ts'
import type { Draft } from './draft.ts'
import { word } from './operands.ts'
import type { PrecompileInputs } from './precompile-inputs.ts'

export type Surroundings = {
  readonly dice: Dice
  readonly addresses: readonly Hex[]
  readonly precompiles: PrecompileInputs
  /** How deep programs may contain further ones, as init code. */
  readonly nesting: number
  program(around: Surroundings, pieces: number): Bytes
}

/** Writes a piece of a program. */
export type Family = (draft: Draft, around: Surroundings) => void

/** With dirt above its 20 bytes at times. */
export function addressOf({ dice, addresses }: Surroundings): bigint {
  const address = BigInt(dice.pick(addresses))
  return dice.chance(0.07) ? address | BigInt.asUintN(256, word(dice) << 160n) : address
}
