/** The arithmetic of MODEXP, in time that is linear in the exponent's length, as its gas is. */
import type { Bytes } from '../../primitives/bytes.ts'
import { bigintToBytes, bytesToBigint } from '../../primitives/words.ts'
import { contractsModule } from './contracts-module.ts'

/** Word products between two polls, in 8-byte words: about a millisecond. */
const WORK_PER_POLL = 1 << 12

/**
 * Computes base^exponent mod modulus, 4 bits of the exponent at a time.
 * @param exponent big endian
 * @param modulus above 0
 * @param poll called about every millisecond; an error that it throws ends the run
 */
export function power(base: bigint, exponent: Bytes, modulus: bigint, poll: () => void): bigint {
  if (modulus < WORD) return powerOfWord(base, exponent, { modulus, poll })
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
      // Leading zeros do not change the result.
      if (result !== powers[0])
        for (let bit = 0; bit < 4; bit++) result = (result * result) % modulus
      if (nibble !== 0) result = (result * powerOf(nibble)) % modulus
    }
  }
  return result
}

/**
 * Numbers below this limit go through our WebAssembly, because a BigInt call takes longer than the
 * computation.
 */
const WORD = 1n << 256n
/** Bytes of the exponent in one step, which takes at most 0.2 ms. */
const STEP_BYTES = 96
const STEPS_PER_POLL = 5

function powerOfWord(
  base: bigint,
  exponent: Bytes,
  { modulus, poll }: { readonly modulus: bigint; readonly poll: () => void },
): bigint {
  const { module, memory } = contractsModule()
  const buffer = module.powerBuffer()
  memory.set(bigintToBytes(base % modulus, 32), buffer)
  memory.set(bigintToBytes(modulus, 32), buffer + 32)
  module.powerBegin()
  for (let at = 0, step = 1; at < exponent.length; at += STEP_BYTES, step++) {
    if (step % STEPS_PER_POLL === 0) poll()
    const part = exponent.subarray(at, at + STEP_BYTES)
    memory.set(part, buffer)
    module.powerStep(part.length)
  }
  module.powerEnd()
  return bytesToBigint(memory.subarray(buffer, buffer + 32))
}
