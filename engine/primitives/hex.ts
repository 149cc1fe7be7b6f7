/** Hex at the engine's edge: 0x-prefixed, lower case. */
import type { Bytes, Hex } from './bytes.ts'

/**
 * Decodes a 0x-prefixed hex string of even length, either case, into a buffer of its own.
 * @throws {RangeError} for any other string
 */
export function hexToBytes(hex: string): Bytes {
  const bytes = hex.startsWith('0x') ? digitsToBytes(hex.slice(2)) : undefined
  if (bytes === undefined)
    throw new RangeError(`not 0x-prefixed hex of even length: ${JSON.stringify(hex.slice(0, 80))}`)
  return bytes
}

/**
 * Decodes hex digits, either case, into a buffer of their own; undefined: an odd number, or another
 * character.
 */
export function digitsToBytes(digits: string): Bytes | undefined {
  if (digits.length % 2 !== 0) return undefined
  const bytes = new Uint8Array(digits.length >> 1)
  /*
   * A Buffer view moves a short array out of V8's heap. The loop takes 0.1 instead of 0.4 µs for an
   * address (November 2026).
   */
  if (bytes.length > SHORT_BYTES)
    // Buffer stops at the first invalid digit, so the count shows whether all were valid.
    return viewOf(bytes).write(digits, 'hex') === bytes.length ? bytes : undefined
  for (let at = 0; at < bytes.length; at++) {
    const value = (digitOf(digits.charCodeAt(2 * at)) << 4) | digitOf(digits.charCodeAt(2 * at + 1))
    if (value < 0) return undefined
    bytes[at] = value
  }
  return bytes
}
const SHORT_BYTES = 64

/** Returns the value of a hex digit, or −1. */
function digitOf(code: number): number {
  const number = code - 48
  if (number >= 0 && number <= 9) return number
  const letter = (code | 32) - 87
  return letter >= 10 && letter <= 15 ? letter : -1
}

export function bytesToHex(bytes: Bytes): Hex {
  return `0x${viewOf(bytes).toString('hex')}`
}

/**
 * Returns a JSON-RPC quantity: no leading zeros, zero is "0x0".
 * @throws {RangeError} for a negative number
 */
export function quantity(value: bigint | number): Hex {
  if (value < 0) throw new RangeError(`a quantity cannot be negative: ${value}`)
  return `0x${value.toString(16)}`
}

const viewOf = (bytes: Bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
