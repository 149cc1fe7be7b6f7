/** Hex at the engine's edge: 0x-prefixed, lower case. */
import type { Bytes, Hex } from './bytes.ts'

/**
 * Bytes of a 0x-prefixed hex string of even length, either case, in a buffer of their own.
 * @throws {RangeError} when the string is anything else.
 */
export function hexToBytes(hex: string): Bytes {
  const bytes = new Uint8Array(Math.max(0, (hex.length - 2) >> 1))
  // Buffer stops at the first digit that is none, so the count tells.
  const isWhole = viewOf(bytes).write(hex.slice(2), 'hex') === bytes.length
  if (!isWhole || hex.length % 2 !== 0 || !hex.startsWith('0x'))
    throw new RangeError(`not 0x-prefixed hex of even length: ${JSON.stringify(hex.slice(0, 80))}`)
  return bytes
}

export function bytesToHex(bytes: Bytes): Hex {
  return `0x${viewOf(bytes).toString('hex')}`
}

/** A JSON-RPC quantity: no leading zeros, zero is "0x0". @throws {RangeError} when negative. */
export function quantity(value: bigint | number): Hex {
  if (value < 0) throw new RangeError(`a quantity cannot be negative: ${value}`)
  return `0x${value.toString(16)}`
}

const viewOf = (bytes: Bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
