/** Members of a leader's message: what is not as it must be is named. */
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { LeaderError } from './types.ts'

export type Fields = Readonly<Record<string, unknown>>

export function fieldsOf(json: unknown, name: string): Fields {
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    throw malformed(name, 'an object')
  return json as Fields
}
export function listOf(json: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(json)) throw malformed(name, 'a list')
  return json
}
export function countOf(json: unknown, name: string): number {
  if (typeof json !== 'number' || !Number.isSafeInteger(json) || json < 0)
    throw malformed(name, 'a number')
  return json
}
export function isTrue(json: unknown, name: string): boolean {
  if (typeof json !== 'boolean') throw malformed(name, 'true or false')
  return json
}
export function bytesOf(json: unknown, name: string, length?: number): Bytes {
  if (typeof json === 'string' && (length === undefined || json.length === 2 + 2 * length))
    try {
      return hexToBytes(json)
    } catch {}
  throw malformed(name, length === undefined ? 'hex' : `${length} bytes in hex`)
}
export const hexOf = (json: unknown, name: string, length: number): string => {
  bytesOf(json, name, length)
  return json as string
}
/** @param bytes that it has at most */
export function quantityOf(json: unknown, name: string, bytes: number): bigint {
  if (typeof json !== 'string' || !QUANTITY.test(json) || json.length > 2 + 2 * bytes)
    throw malformed(name, `a quantity of at most ${bytes} bytes`)
  return BigInt(json)
}
const QUANTITY = /^0x(0|[1-9a-f][0-9a-f]*)$/

export const malformed = (name: string, expected: string) =>
  new LeaderError('malformed', `${name}: expected ${expected}`)
