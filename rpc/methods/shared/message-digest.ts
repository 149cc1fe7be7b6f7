/** What `eth_sign` signs: hashed where the message is short, made in the pool where decoding it alone takes a millisecond. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { address, bytes } from '../../json/codecs.ts'
import { textResult } from '../../json/results.ts'
import { param, poolMethod } from '../../method/method.ts'

/** EIP-191, version 0x45: the prefix keeps it from being a transaction. */
export const messageDigest = (message: Bytes): Bytes =>
  keccak256(concatBytes(Buffer.from(`\x19Ethereum Signed Message:\n${message.length}`), message))

/** Takes what `eth_sign` takes; no client can ask for it. */
export const digestMessage = poolMethod({
  name: 'digestMessage',
  summary: 'The digest of a message, and the address that is to sign it.',
  runs: 'call',
  params: [param('Address', address), param('Message', bytes)],
  result: textResult('Digest', { type: 'object' }),
  handler: (_, who, message): string =>
    JSON.stringify({ address: bytesToHex(who), digest: bytesToHex(messageDigest(message)) }),
})

/** From the text of its result. */
export function decodeMessageDigest(text: string): {
  readonly address: Bytes
  readonly digest: Bytes
} {
  const wire: { readonly address: string; readonly digest: string } = JSON.parse(text)
  return { address: hexToBytes(wire.address), digest: hexToBytes(wire.digest) }
}
