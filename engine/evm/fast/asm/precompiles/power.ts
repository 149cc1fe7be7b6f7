/**
 * MODEXP for numbers of at most 32 bytes, 4 bits of the exponent at a time. The host polls its
 * deadline between steps.
 */
import { mod, mulmod, reciprocal } from '../primitives/divide'
import { bswapCopy, copy, hi3, mulh, set64 } from '../primitives/u256'

/** base^0 … base^15. */
const POWERS: usize = memory.data(512, 16)
const MODULUS: usize = memory.data(32, 16)
const RESULT: usize = memory.data(32, 16)
/**
 * Buffer of the host, big endian: base and modulus of 32 bytes each, then parts of the exponent;
 * finally the result.
 */
const BUFFER: usize = memory.data(96, 16)
/**
 * True while the result is 1 after leading zeros of the exponent; squaring would change nothing.
 */
let isOne: bool = true
/**
 * Modulus of one limb, shifted so that its top bit is set, with shift and reciprocal. 0 for a
 * longer modulus.
 */
let divisor: u64 = 0
let shift: u64 = 0
let inverse: u64 = 0

export function powerBuffer(): usize {
  return BUFFER
}

/** Starts with base and modulus in the buffer; the modulus is above 0. */
export function powerBegin(): void {
  bswapCopy(MODULUS, BUFFER + 32)
  set64(POWERS, 1)
  mod(POWERS, POWERS, MODULUS)
  bswapCopy(POWERS + 32, BUFFER)
  mod(POWERS + 32, POWERS + 32, MODULUS)
  for (let at = POWERS + 64; at < POWERS + 512; at += 32) mulmod(at, at - 32, POWERS + 32, MODULUS)
  copy(RESULT, POWERS)
  isOne = true
  divisor = 0
  if (hi3(MODULUS) != 0) return
  shift = clz<u64>(load<u64>(MODULUS))
  divisor = load<u64>(MODULUS) << shift
  inverse = reciprocal(divisor)
}

/** Processes the next bytes of the exponent in the buffer, at most 96. */
export function powerStep(bytes: u32): void {
  if (divisor != 0) return stepByLimb(bytes)
  for (let at: usize = 0; at < <usize>bytes; at++) {
    const byte = load<u8>(BUFFER + at)
    digit(byte >> 4)
    digit(byte & 15)
  }
}

/**
 * Processes a step with a modulus of one limb. The result stays shifted, like remainders by the
 * shifted modulus.
 */
function stepByLimb(bytes: u32): void {
  let result = load<u64>(RESULT) << shift
  for (let at: usize = 0; at < <usize>bytes << 1; at++) {
    const byte = load<u8>(BUFFER + (at >> 1))
    const value = at & 1 ? byte & 15 : byte >> 4
    result = timesLimb(result, result >> shift)
    result = timesLimb(result, result >> shift)
    result = timesLimb(result, result >> shift)
    result = timesLimb(result, result >> shift)
    if (value != 0) result = timesLimb(result, load<u64>(POWERS + ((<usize>value) << 5)))
  }
  store<u64>(RESULT, result >> shift)
}

/**
 * Computes a · b modulo the shifted modulus (Möller and Granlund, algorithm 4).
 * @param b not shifted
 */
// @ts-ignore: decorator
@inline
function timesLimb(a: u64, b: u64): u64 {
  const high = mulh(a, b)
  const low = a * b
  const q0 = inverse * high
  const sum = q0 + low
  const q1 = mulh(inverse, high) + high + u64(sum < q0) + 1
  let rest = low - q1 * divisor
  if (rest > sum) rest += divisor
  return rest >= divisor ? rest - divisor : rest
}

function digit(value: u8): void {
  if (!isOne)
    for (let bit = 0; bit < 4; bit++) mulmod(RESULT, RESULT, RESULT, MODULUS)
  if (value == 0) return
  mulmod(RESULT, RESULT, POWERS + ((<usize>value) << 5), MODULUS)
  isOne = false
}

/** Writes the result to the start of the buffer. */
export function powerEnd(): void {
  bswapCopy(BUFFER, RESULT)
}
