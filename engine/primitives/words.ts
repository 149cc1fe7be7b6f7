/** Bytes as big-endian numbers, and byte strings compared and joined. */
import type { Bytes } from './bytes.ts'

/** Shared: never write into them. */
export const ZERO_32: Bytes = new Uint8Array(32)
export const ZERO_20: Bytes = new Uint8Array(20)

/** Big-endian, of any length; no bytes are zero. */
export function bytesToBigint(bytes: Bytes): bigint {
  if (bytes.length === 0) return 0n
  return BigInt(`0x${viewOf(bytes).toString('hex')}`)
}

/** Big-endian, left-padded to `length` bytes. @throws {RangeError} when negative or too large. */
export function bigintToBytes(value: bigint, length: number): Bytes {
  const digits = value.toString(16)
  if (value < 0n || digits.length > length * 2)
    throw new RangeError(`${value} does not fit into ${length} bytes`)
  const bytes = new Uint8Array(length)
  viewOf(bytes).write(digits.padStart(length * 2, '0'), 'hex')
  return bytes
}

export function equalBytes(a: Bytes, b: Bytes): boolean {
  if (a.length !== b.length) return false
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false
  return true
}

/** Negative, zero or positive; a prefix comes before what it begins. */
export function compareBytes(a: Bytes, b: Bytes): number {
  const shared = Math.min(a.length, b.length)
  for (let at = 0; at < shared; at++) if (a[at] !== b[at]) return a[at]! - b[at]!
  return a.length - b.length
}

/** A new byte string that holds the parts in order. */
export function concatBytes(...parts: readonly Bytes[]): Bytes {
  let length = 0
  for (const part of parts) length += part.length
  const whole = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

const viewOf = (bytes: Bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
