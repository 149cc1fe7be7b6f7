/**
 * Numbers at which an EVM makes mistakes: around powers of two, signs, memory words, sizes and
 * addresses.
 */
import type { Hex } from '../../../engine/primitives/bytes.ts'
import type { Dice } from '../cost/random.ts'

const MAX = (1n << 256n) - 1n
const MIN_SIGNED = 1n << 255n
const EDGES: readonly bigint[] = [
  ...[0n, 1n, 2n, 3n, 7n, 8n, 30n, 31n, 32n, 33n, 63n, 64n, 65n, 95n, 96n, 127n, 128n, 160n],
  ...[224n, 254n, 255n, 256n, 257n, 0xffffn, 0x10000n, 0xffffffffn, 1n << 32n, (1n << 53n) + 1n],
  ...[(1n << 63n) - 1n, 1n << 63n, (1n << 64n) - 1n, 1n << 64n, (1n << 64n) + 1n, 1n << 96n],
  ...[(1n << 127n) - 1n, 1n << 127n, (1n << 128n) - 1n, 1n << 128n, (1n << 128n) + 1n],
  ...[(1n << 160n) - 1n, 1n << 160n, 1n << 192n, (1n << 192n) - 1n, MIN_SIGNED - 1n],
  ...[MIN_SIGNED, MIN_SIGNED + 1n, MAX, MAX - 1n, MAX - 2n, MAX - 31n, MAX - 255n],
]

/** Draws an operand for arithmetic. */
export function word(dice: Dice): bigint {
  switch (dice.int(8)) {
    case 0:
    case 1:
    case 2:
      return dice.pick(EDGES)
    case 3:
      return BigInt(dice.int(300))
    case 4:
      return randomBits(dice, 256)
    case 5:
      return randomBits(dice, 1 + dice.int(256))
    case 6:
      return BigInt.asUintN(256, -randomBits(dice, 1 + dice.int(256)))
    default:
      return BigInt.asUintN(256, (1n << BigInt(dice.int(256))) + BigInt(dice.int(3)) - 1n)
  }
}

export function randomBits(dice: Dice, bits: number): bigint {
  let value = 0n
  for (let have = 0; have < bits; have += 24) value = (value << 24n) | BigInt(dice.int(1 << 24))
  return BigInt.asUintN(bits, value)
}

/** Draws a memory offset: often unaligned, and sometimes too far to be payable. */
export function offset(dice: Dice): bigint {
  if (dice.chance(0.93)) return BigInt(dice.int(dice.chance(0.8) ? 100 : 1_200))
  return dice.pick([
    4_096n,
    65_535n,
    1n << 20n,
    0x1fffffffe0n,
    (1n << 32n) - 1n,
    1n << 32n,
    1n << 63n,
    MAX,
  ])
}

export function length(dice: Dice): bigint {
  if (dice.chance(0.2)) return 0n
  if (dice.chance(0.93)) return BigInt(dice.int(dice.chance(0.8) ? 70 : 600))
  return dice.pick([24_576n, 24_577n, 49_153n, 1n << 16n, 0xffffffffn, 1n << 32n, 1n << 64n, MAX])
}

export const slotKey = (dice: Dice): bigint =>
  dice.chance(0.9) ? BigInt(dice.int(4)) : dice.pick([MAX, 1n << 128n, 1n << 64n, 255n])

export const slotValue = (dice: Dice): bigint =>
  dice.chance(0.85) ? BigInt(dice.int(3)) : word(dice)

export function callGas(dice: Dice): bigint {
  if (dice.chance(0.6)) return BigInt(dice.int(60_000))
  return dice.pick([0n, 1n, 700n, 2_300n, 2_301n, 5_000n, 1n << 32n, 1n << 64n, MAX])
}

export const wei = (dice: Dice): bigint =>
  dice.chance(0.6) ? 0n : dice.pick([1n, 2n, 1_000n, 1n << 64n, 1n << 128n, MAX])

export function bytes(dice: Dice, size: number): Uint8Array {
  return Uint8Array.from({ length: size }, () => dice.int(256))
}

export const hexOf = (data: Uint8Array): Hex => `0x${Buffer.from(data).toString('hex')}`
export const hexNumber = (value: bigint): Hex => `0x${value.toString(16)}`
/** Decodes digits with spaces between, for handwritten code. */
export const hexBytes = (digits: string): Uint8Array =>
  Buffer.from(digits.replaceAll(' ', ''), 'hex')
