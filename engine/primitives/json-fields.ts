/**
 * Readers of single JSON values. Each returns the value or throws a Refusal that names the field.
 */
import type { Bytes } from './bytes.ts'
import { hexToBytes } from './hex.ts'
import { bigintToBytes } from './words.ts'

export type JsonObject<Key extends string = string> = { readonly [K in Key]?: unknown }

/**
 * A refused message: the field (or the layer: "brotli", "json") and the expectation. Callers of the
 * readers catch it.
 */
export class Refusal extends Error {
  override name = 'Refusal'
  readonly field: string
  constructor(field: string, expected: string, got?: unknown) {
    super(`${field}: expected ${expected}${got === undefined ? '' : `, got ${excerpt(got)}`}`)
    this.field = field
  }
}

export const isObject = (value: unknown): value is JsonObject =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

/**
 * Returns an own property; null counts as absent. Inherited members (`constructor`, `__proto__`)
 * are never read.
 */
export const field = (object: JsonObject, key: string): unknown =>
  Object.hasOwn(object, key) ? (object[key] ?? undefined) : undefined

/** Returns whether a member is present; null counts as absent. */
export const isGiven = (value: unknown): boolean => value !== undefined && value !== null

export function readObject<Key extends string = string>(
  value: unknown,
  name: string,
): JsonObject<Key> {
  if (!isObject(value)) throw new Refusal(name, 'an object', describe(value))
  return value as JsonObject<Key>
}

export function readArray(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new Refusal(name, 'an array', describe(value))
  return value
}

/**
 * Reads a plain JSON number; the feed has three of them (index, target_index,
 * metadata.block_number).
 */
export function readInteger(value: unknown, name: string, max = Number.MAX_SAFE_INTEGER): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0 || value > max)
    throw new Refusal(name, `a whole JSON number up to ${max}`, describe(value))
  return value
}

/** Reads hex of whole bytes, either case; exactly `size` bytes with `size`. */
export function readBytes(value: unknown, name: string, size?: number): Bytes {
  const expected = size === undefined ? '0x and whole bytes' : `0x and ${size} bytes`
  if (typeof value !== 'string' || !value.startsWith('0x') || value.length % 2 !== 0)
    throw new Refusal(name, expected, describe(value))
  if (size !== undefined && value.length !== 2 + 2 * size)
    throw new Refusal(name, expected, `${(value.length - 2) / 2} bytes`)
  try {
    return hexToBytes(value)
  } catch {
    throw new Refusal(name, expected, value)
  }
}

/** Reads a hex quantity of at most `bits` bits; leading zeros are allowed. */
export function readQuantity(value: unknown, name: string, bits = 64): bigint {
  if (typeof value !== 'string' || !/^0x[0-9a-f]{1,78}$/i.test(value))
    throw new Refusal(name, 'a hex quantity', describe(value))
  const quantity = BigInt(value)
  if (quantity >> BigInt(bits) !== 0n) throw new Refusal(name, `at most ${bits} bits`, value)
  return quantity
}

/**
 * Reads a number in a file that people write: a JSON number, or a string of decimal or hex digits.
 */
export function readUint(value: unknown, name: string, bits = 64): bigint {
  const isNumber =
    (typeof value === 'number' && Number.isSafeInteger(value)) ||
    typeof value === 'bigint' ||
    (typeof value === 'string' && /^(0x[0-9a-fA-F]+|[0-9]+)$/.test(value))
  if (!isNumber) throw new Refusal(name, 'a number', describe(value))
  const number = BigInt(value as number | bigint | string)
  if (number < 0n || number >> BigInt(bits) !== 0n)
    throw new Refusal(name, `0 to 2^${bits} - 1`, number)
  return number
}

/** Reads hex in a file that people write; the 0x is optional. */
export const readHex = (value: unknown, name: string, size?: number): Bytes =>
  readBytes(typeof value === 'string' ? prefixed(value) : value, name, size)

/** Reads a word in a file that people write; hex of fewer digits is a number. */
export function readWord(value: unknown, name: string): Bytes {
  if (typeof value !== 'string' || !/^(0x)?[0-9a-fA-F]{1,64}$/.test(value))
    throw new Refusal(name, 'a word in hex', describe(value))
  return bigintToBytes(BigInt(prefixed(value)), 32)
}

const prefixed = (hex: string): string => (hex.startsWith('0x') ? hex : `0x${hex}`)

const describe = (value: unknown) =>
  value === undefined ? 'nothing' : typeof value === 'object' ? kind(value) : value
const kind = (value: unknown) =>
  value === null ? 'null' : Array.isArray(value) ? 'an array' : 'an object'
/** Shortens a value from outside and removes its line breaks. */
const excerpt = (value: unknown) => String(value).slice(0, 40).replace(/\s+/g, ' ')
