/** These functions compute the results of word functions by BigInt. */

const SIZE = 1n << 256n
const word = (n: bigint) => BigInt.asUintN(256, n)
const signed = (n: bigint) => BigInt.asIntN(256, n)

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (const bit of exponent.toString(2)) {
    result = word(result * result)
    if (bit === '1') result = word(result * base)
  }
  return result
}

/** Operands and result are words. */
export const ON_WORDS: Record<string, (...operands: readonly bigint[]) => bigint> = {
  add: (a, b) => word(a! + b!),
  sub: (a, b) => word(a! - b!),
  mul: (a, b) => word(a! * b!),
  div: (a, b) => (b === 0n ? 0n : a! / b!),
  mod: (a, b) => (b === 0n ? 0n : a! % b!),
  sdiv: (a, b) => (b === 0n ? 0n : word(signed(a!) / signed(b!))),
  smod: (a, b) => (b === 0n ? 0n : word(signed(a!) % signed(b!))),
  addmod: (a, b, m) => (m === 0n ? 0n : (a! + b!) % m!),
  mulmod: (a, b, m) => (m === 0n ? 0n : (a! * b!) % m!),
  exp: (a, b) => power(a!, b!),
  neg: (a) => word(-a!),
  copy: (a) => a!,
  zero: () => 0n,
  bswapCopy: (a) =>
    BigInt(`0x${a!.toString(16).padStart(64, '0').match(/../g)!.reverse().join('')}`),
}
export const OPERANDS: Record<string, number> = {
  addmod: 3,
  mulmod: 3,
  neg: 1,
  copy: 1,
  zero: 0,
  bswapCopy: 1,
}

/** The operands are a word and a number of bits below 256, or 8 · bits below 31 for signextend. */
export const BY_BITS: Record<string, (a: bigint, bits: bigint) => bigint> = {
  shl: (a, bits) => word(a << bits),
  shr: (a, bits) => a >> bits,
  sar: (a, bits) => word(signed(a) >> bits),
}
export const signextend = (a: bigint, k: bigint): bigint =>
  word(BigInt.asIntN(Number(8n * k + 8n), a))

/** The result is a number. */
export const TO_NUMBER: Record<string, (a: bigint, b: bigint) => number> = {
  lt: (a, b) => Number(a < b),
  slt: (a, b) => Number(signed(a) < signed(b)),
  eq: (a, b) => Number(a === b),
  isZero: (a) => Number(a === 0n),
  leadingZeros: (a) => 256 - (a === 0n ? 0 : a.toString(2).length),
  byteLen: (a) => (a === 0n ? 0 : Math.ceil(a.toString(16).length / 2)),
}

/** The values are at limits of limbs, changes of sign, and the largest digits of a division. */
export const CORNERS: readonly bigint[] = [
  ...[0n, 1n, 2n, 3n, 7n, 255n, 10n ** 18n, SIZE - 1n, SIZE - 2n, SIZE >> 1n, (SIZE >> 1n) - 1n],
  ...[31n, 32n, 63n, 64n, 65n, 127n, 128n, 129n, 191n, 192n, 193n, 255n].flatMap((bits) => {
    const power = 1n << bits
    return [power, power - 1n, power + 1n, SIZE - power, SIZE - power - 1n].map(word)
  }),
  // Contracts compute in these fields.
  ...[(1n << 255n) - 19n, 2n ** 256n - 2n ** 32n - 977n],
  0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47n,
  // These values share their two top limbs with the numerator.
  0x8000000000000000_0000000000000000_0000000000000000_0000000000000001n,
  0x8000000000000000_0000000000000000_ffffffffffffffff_ffffffffffffffffn,
  0x7fffffffffffffff_ffffffffffffffff_ffffffffffffffff_0000000000000000n,
  0x0000000000000000_8000000000000000_ffffffffffffffff_fffffffffffffffen,
]
