/**
 * Digest for `eth_sign`: short messages are hashed in place. Long ones go to the pool, because
 * decoding them takes a millisecond.
 */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { address, bytes } from '../../json/codecs.ts'
import { textResult } from '../../json/results.ts'
import { param, poolMethod } from '../../method/method.ts'

/** Computes the EIP-191 digest, version 0x45, whose prefix prevents a valid transaction. */
export const messageDigest = (message: Bytes): Bytes =>
  keccak256(concatBytes(Buffer.from(`\x19Ethereum Signed Message:\n${message.length}`), message))

/** Internal pool method with the parameters of `eth_sign`; clients cannot call it. */
export const digestMessage = poolMethod({
  name: 'digestMessage',
  summary: 'The digest of a message, and the address of its signer.',
  runs: 'call',
  params: [param('Address', address), param('Message', bytes)],
  result: textResult('Digest', { type: 'object' }),
  handler: (_, who, message): string =>
    JSON.stringify({ address: bytesToHex(who), digest: bytesToHex(messageDigest(message)) }),
})

/** Decodes the result of `digestMessage`. */
export function decodeMessageDigest(text: string): {
  readonly address: Bytes
  readonly digest: Bytes
} {
  const wire: { readonly address: string; readonly digest: string } = JSON.parse(text)
  return { address: hexToBytes(wire.address), digest: hexToBytes(wire.digest) }
}
