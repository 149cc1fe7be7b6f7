/** Decodes storage slots as go-ethereum does. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import { invalidParams } from '../../core/errors.ts'

/**
 * Maximum accepted text. A text longer than a slot is refused with an error that quotes its start.
 */
export const KEY_CHARACTERS = 2_000_000

/**
 * Decodes hex of at most 32 bytes, also with an odd length or without 0x.
 * @returns the key, and the number of bytes written in the text
 * @throws {RpcError}
 */
export function slotKey(text: string): { readonly key: Bytes; readonly length: number } {
  const digits = /^0[xX]/.test(text) ? text.slice(2) : text
  const isHex = digits.length > 66 || /^[0-9a-fA-F]*$/.test(digits)
  if (!isHex) throw invalidParams(`invalid hex in storage key: ${JSON.stringify(text)}`)
  if (digits.length > 64)
    throw invalidParams(
      `storage key too long (want at most 32 bytes): ${JSON.stringify(text.slice(0, 80))}`,
    )
  const key = bigintToBytes(BigInt(`0x${digits === '' ? '0' : digits}`), 32)
  return { key, length: (digits.length + 1) >> 1 }
}
