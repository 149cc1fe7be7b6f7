/** Bytes as big-endian numbers, and byte strings compared and joined. */
import type { Bytes } from './bytes.ts'

/** Shared constants that must not be written to. */
export const ZERO_32: Bytes = new Uint8Array(32)
export const ZERO_20: Bytes = new Uint8Array(20)

/**
 * Reads a big-endian number of any length; no bytes are zero. A conversion through hex takes twice
 * as long, for short numbers ten times (November 2026).
 */
export function bytesToBigint(bytes: Bytes): bigint {
  // At most 7 bytes come before the first complete word, and a double represents 6 exactly.
  const head = bytes.length <= 6 ? bytes.length : bytes.length % 8
  let short = 0
  for (let at = 0; at < head && at < 6; at++) short = short * 256 + bytes[at]!
  let value = BigInt(short)
  if (head === 7) value = (value << 8n) | BigInt(bytes[6]!)
  if (head === bytes.length) return value
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = head; at < bytes.length; at += 8) value = (value << 64n) | view.getBigUint64(at)
  return value
}

/**
 * Writes a big-endian number, left-padded to `length` bytes.
 * @throws {RangeError} for a negative or too large number
 */
export function bigintToBytes(value: bigint, length: number): Bytes {
  const bytes = new Uint8Array(length)
  let at = length
  if (value >= 0n && value <= MAX_SHORT) {
    let short = Number(value)
    for (; at > 0 && short >= 1; short = Math.floor(short / 256)) bytes[--at] = short
    if (short >= 1) throw new RangeError(`${value} does not fit into ${length} bytes`)
    return bytes
  }
  const view = new DataView(bytes.buffer)
  let rest = value
  for (; at >= 8 && rest > 0n; rest >>= 64n) {
    at -= 8
    view.setBigUint64(at, BigInt.asUintN(64, rest))
  }
  for (; at > 0 && rest > 0n; rest >>= 8n) bytes[--at] = Number(rest & 255n)
  if (rest !== 0n) throw new RangeError(`${value} does not fit into ${length} bytes`)
  return bytes
}

/** Returns the number of bytes without leading zeros; zero has none. */
export function byteLength(value: bigint | number): number {
  if (value > MAX_SHORT) return (value.toString(16).length + 1) >> 1
  let length = 0
  for (let rest = Number(value); rest >= 1; rest /= 256) length++
  return length
}

export function equalBytes(a: Bytes, b: Bytes): boolean {
  if (a.length !== b.length) return false
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false
  return true
}

/** Returns a negative, zero or positive number. A prefix sorts first. */
export function compareBytes(a: Bytes, b: Bytes): number {
  const shared = Math.min(a.length, b.length)
  for (let at = 0; at < shared; at++) if (a[at] !== b[at]) return a[at]! - b[at]!
  return a.length - b.length
}

export function concatBytes(...parts: readonly Bytes[]): Bytes {
  let length = 0
  for (const part of parts) length += part.length
  const full = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    full.set(part, at)
    at += part.length
  }
  return full
}

/** Largest number of 6 bytes, which a double represents exactly. */
const MAX_SHORT = 0xffff_ffff_ffff
