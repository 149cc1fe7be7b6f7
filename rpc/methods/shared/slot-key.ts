/** Storage slots as go-ethereum takes them. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import { invalidParams } from '../../seam/errors.ts'

/** Longest text that is looked at; what is longer than a slot is refused with its beginning. */
export const KEY_CHARACTERS = 2_000_000

/** Hex of at most 32 bytes, odd lengths and a missing 0x included; and how many bytes were written. @throws {RpcError} */
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
