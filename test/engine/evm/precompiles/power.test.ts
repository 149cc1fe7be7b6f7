/**
 * Modular powers, by WebAssembly where the modulus fits a word, are compared with multiplication of
 * BigInts.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { power } from '../../../../engine/evm/precompiles/power.ts'
import { bytesToBigint } from '../../../../engine/primitives/words.ts'
import { CORNERS } from '../fast/arithmetic.ts'

function byMultiplication(base: bigint, exponent: bigint, modulus: bigint): bigint {
  let [result, square] = [1n % modulus, base % modulus]
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % modulus
    square = (square * square) % modulus
  }
  return result
}

const number = fc.oneof(
  fc.constantFrom(...CORNERS),
  fc
    .tuple(fc.bigInt({ min: 0n, max: (1n << 320n) - 1n }), fc.nat(319))
    .map(([n, bits]) => n >> BigInt(bits)),
)
const modulus = number.filter((n) => n > 0n)
const exponent = fc
  .tuple(fc.nat(3), fc.uint8Array({ maxLength: 200 }))
  .map(([zeros, bytes]) => Uint8Array.from([...new Uint8Array(zeros), ...bytes]))

test('a modular power is the result of repeated multiplication', () => {
  fc.assert(
    fc.property(number, exponent, modulus, (base, exponent, modulus) => {
      const expected = byMultiplication(base, bytesToBigint(exponent), modulus)
      expect(power(base, exponent, modulus, () => {})).toBe(expected)
    }),
    { numRuns: 3_000 },
  )
})

test('the poll function can interrupt the power of a long exponent', () => {
  let polls = 0
  const long = new Uint8Array(20_000).fill(0xff)
  const stop = () => {
    if (++polls === 3) throw new Error('stopped')
  }
  expect(() => power(3n, long, (1n << 255n) - 19n, stop)).toThrow('stopped')
  expect(power(3n, long, 1n, () => {})).toBe(0n)
})
