/** Inputs of precompiled contracts, valid ones and spoilt ones. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bigintToBytes, concatBytes } from '../../../engine/primitives/words.ts'
import { CURVES } from '../../fixtures/curve-inputs.ts'
import type { Dice } from '../cost/random.ts'
import { bytes, hexBytes } from './operands.ts'

/** Maps the low part of the address to valid inputs. The lists of expensive contracts are short. */
export type PrecompileInputs = readonly (readonly [precompile: number, inputs: readonly Bytes[]])[]

const words = (...values: readonly bigint[]): Bytes =>
  concatBytes(...values.map((value) => bigintToBytes(value, 32)))

/** The input is signed by the key 0x46…46, the example of EIP-155. */
const SIGNED = hexBytes(
  'daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53' +
    '000000000000000000000000000000000000000000000000000000000000001b' +
    '28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276' +
    '67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83',
)

export function precompileInputs(): PrecompileInputs {
  const bn = CURVES.order.bn
  const bnPoint = CURVES.bnPairs([[3n, 1n]]).slice(0, 64)
  const blake = concatBytes(Uint8Array.of(0, 0, 0, 12), hexBytes('48c9bdf267e6096a'.repeat(8)))
  return [
    [1, [SIGNED]],
    [2, [hexBytes('616263'), new Uint8Array(65).fill(7)]],
    [3, [hexBytes('616263')]],
    [4, [hexBytes('00112233445566778899'), new Uint8Array(100).fill(9)]],
    [
      5,
      [
        concatBytes(words(1n, 2n, 1n), hexBytes('03 0104 07')),
        words(32n, 1n, 32n, 3n << 250n, 5n, bn),
      ],
    ],
    [6, [concatBytes(bnPoint, bnPoint), concatBytes(bnPoint, words(0n, 0n)), new Uint8Array(0)]],
    [7, [concatBytes(bnPoint, words(2n)), concatBytes(bnPoint, words(bn - 1n))]],
    [
      8,
      [
        new Uint8Array(0),
        CURVES.bnPairs([[1n, 1n]]),
        CURVES.bnPairs([
          [2n, 3n],
          [bn - 6n, 1n],
        ]),
      ],
    ],
    [9, [concatBytes(blake, new Uint8Array(128).fill(1), new Uint8Array(16), Uint8Array.of(1))]],
    [10, [new Uint8Array(192)]],
    [11, [CURVES.blsPairs([[1n, 1n]]).slice(0, 128), new Uint8Array(256)]],
    [12, [CURVES.sumG1([[1n, 5n]])]],
    [13, [new Uint8Array(512)]],
    [14, [CURVES.sumG2([[1n, 5n]])]],
    [15, [CURVES.blsPairs([[0n + 1n, 1n]])]],
    [16, [words(0n, 5n)]],
    [17, [words(0n, 5n, 0n, 7n)]],
    [256, [new Uint8Array(160).fill(3)]],
  ]
}

/** Spoils an input in at most one way. */
export function spoilt(dice: Dice, input: Bytes): Bytes {
  const copy = Uint8Array.from(input)
  switch (dice.int(7)) {
    case 0:
      return copy.slice(0, dice.int(copy.length + 1))
    case 1:
      return concatBytes(copy, bytes(dice, 1 + dice.int(40)))
    case 2:
      if (copy.length > 0) copy[dice.int(copy.length)]! ^= 1 << dice.int(8)
      return copy
    case 3:
      if (copy.length >= 32) copy.fill(0xff, copy.length - 32)
      return copy
    default:
      return copy
  }
}
