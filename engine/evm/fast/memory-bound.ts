/** Computes the memory that the gas of a message can buy. */

const WORD_BYTES = 32
const MAX_DEPTH = 1_024

/**
 * Returns the maximum bytes that the frames of one run can have at one moment. A frame of w words
 * has paid c(w) = 3w + w²/512, less one gas of rounding. Its callee gets at most 63/64 of the gas
 * left (EIP-150); the call's price covers both roundings. So Σ c(w) · (64/63)^depth ≤ gas + 1 over
 * the open frames. For every price μ > 0 of a word: Σ w ≤ (gas + 1)/μ + Σ max over w of (w −
 * c(w)/m). Here m = μ · (63/64)^depth. That maximum is 128 (m − 3)²/m where m > 3, or else 0. The
 * code uses a μ near the best one.
 */
export function memoryOfGas(gas: bigint): number {
  const all = Number(gas) + 1
  const price = Math.sqrt(all / (64 * 128)) + 3
  let words = all / price
  let atDepth = price
  for (let depth = 0; depth <= MAX_DEPTH && atDepth > 3; depth++) {
    words += (128 * (atDepth - 3) ** 2) / atDepth
    atDepth *= 63 / 64
  }
  return Math.ceil(words) * WORD_BYTES
}
