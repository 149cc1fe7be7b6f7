/** Addresses as people read them: hex whose case is a checksum (EIP-55). */
import type { Bytes, Hex } from './bytes.ts'
import { keccak256 } from './keccak.ts'

/** @param address 20 bytes */
export function checksumAddress(address: Bytes): Hex {
  const digits = Buffer.from(address.buffer, address.byteOffset, address.length).toString('hex')
  const hash = keccak256(Buffer.from(digits, 'latin1'))
  let text = ''
  for (let at = 0; at < digits.length; at++) {
    const nibble = at % 2 === 0 ? hash[at >> 1]! >> 4 : hash[at >> 1]! & 15
    text += nibble >= 8 ? digits[at]!.toUpperCase() : digits[at]
  }
  return `0x${text}`
}
