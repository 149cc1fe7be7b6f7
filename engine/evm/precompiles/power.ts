/** The arithmetic of the MODEXP contract, in time that is linear in the exponent's length, as its gas is. */
import type { Bytes } from '../../primitives/bytes.ts'

/** Squares of 8-byte words multiplied between two polls: about a millisecond. */
const WORK_PER_POLL = 1 << 12

/**
 * base^exponent mod modulus, 4 bits of the exponent at a time.
 * @param exponent big endian
 * @param modulus above 0
 * @param poll called about every millisecond; what it throws ends the run
 */
export function power(base: bigint, exponent: Bytes, modulus: bigint, poll: () => void): bigint {
  const words = Math.ceil(modulus.toString(16).length / 16)
  const powers = [1n % modulus, base % modulus]
  const powerOf = (n: number): bigint => {
    while (powers.length <= n) powers.push((powers.at(-1)! * powers[1]!) % modulus)
    return powers[n]!
  }
  let result = powers[0]!
  let work = 0
  for (const byte of exponent) {
    work += words * words
    if (work >= WORK_PER_POLL) {
      work = 0
      poll()
    }
    for (const nibble of [byte >> 4, byte & 15]) {
      // Leading zeros change nothing.
      if (result !== powers[0])
        for (let bit = 0; bit < 4; bit++) result = (result * result) % modulus
      if (nibble !== 0) result = (result * powerOf(nibble)) % modulus
    }
  }
  return result
}
