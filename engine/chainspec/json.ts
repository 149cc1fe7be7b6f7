/** Values of the JSON files that describe a chain, read strictly: what is wrong is said with its place and what was expected. */
import type { Bytes } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { bigintToBytes } from '../primitives/words.ts'
import { ChainError } from './error.ts'

export type Json<Key extends string = string> = { readonly [K in Key]?: unknown }

/** Neither is a value. */
export const given = (value: unknown): boolean => value !== undefined && value !== null

export function objectOf<Key extends string = string>(value: unknown, where: string): Json<Key> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new ChainError(`${where} is ${describe(value)}, expected an object`)
}

/** A number, or a string of decimal or 0x-prefixed hex digits. */
export function uintOf(value: unknown, where: string, bits = 64): bigint {
  const isNumber =
    (typeof value === 'number' && Number.isSafeInteger(value)) ||
    typeof value === 'bigint' ||
    (typeof value === 'string' && /^(0x[0-9a-fA-F]+|[0-9]+)$/.test(value))
  if (!isNumber) throw new ChainError(`${where} is ${describe(value)}, expected a number`)
  const number = BigInt(value as number | bigint | string)
  if (number < 0n || number >= 1n << BigInt(bits))
    throw new ChainError(`${where} is ${number}, expected 0 to 2^${bits} - 1`)
  return number
}

export function bytesOf(value: unknown, where: string): Bytes {
  if (typeof value === 'string' && /^(0x)?([0-9a-fA-F]{2})*$/.test(value))
    return hexToBytes(prefixed(value))
  throw new ChainError(`${where} is ${describe(value)}, expected hex`)
}

export function fixedOf(value: unknown, length: number, where: string): Bytes {
  const bytes = bytesOf(value, where)
  if (bytes.length === length) return bytes
  throw new ChainError(`${where} has ${bytes.length} bytes, expected ${length}`)
}

/** 32 bytes; shorter hex is a number. */
export function wordOf(value: unknown, where: string): Bytes {
  if (typeof value === 'string' && /^(0x)?[0-9a-fA-F]{1,64}$/.test(value))
    return bigintToBytes(BigInt(prefixed(value)), 32)
  throw new ChainError(`${where} is ${describe(value)}, expected a word in hex`)
}

export const prefixed = (hex: string) => (/^0x/i.test(hex) ? `0x${hex.slice(2)}` : `0x${hex}`)
const describe = (value: unknown) => (JSON.stringify(value) ?? 'missing').slice(0, 80)
