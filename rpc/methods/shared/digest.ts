/** The digest of a long transaction, made in the pool: the node asks for it before it takes the transaction, no client can. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { digestOf } from '../../../engine/txpool/digest.ts'
import type { Digest } from '../../../engine/txpool/types.ts'
import { bytes, hexText } from '../../json/codecs.ts'
import { textResult } from '../../json/results.ts'
import { param, poolMethod } from '../../method/method.ts'
import { invalidTransaction } from '../../seam/errors.ts'

export const digestTransaction = poolMethod({
  name: 'digestTransaction',
  summary:
    'What a transaction is known by, and what counts of its bytes; an error where it is none.',
  runs: 'call',
  params: [param('Envelope', bytes)],
  result: textResult('Digest', { type: 'object' }),
  handler(_, envelope) {
    const made = digestOf(envelope)
    if ('digest' in made) return encode(made.digest)
    throw invalidTransaction(made.error)
  },
})

/** Parameters of `digestTransaction` as JSON text. */
export const envelopeText = (envelope: Bytes): string => `[${hexText(envelope)}]`

/** From the text of its result. */
export function decodeDigest(text: string): Digest {
  const { hash, from, rollup, intrinsic }: Wire = JSON.parse(text)
  const [zeroBytes, nonZeroBytes, estimatedSize] = rollup
  return {
    hash: hexToBytes(hash),
    from: hexToBytes(from),
    rollup: {
      zeroBytes: BigInt(zeroBytes),
      nonZeroBytes: BigInt(nonZeroBytes),
      estimatedSize: BigInt(estimatedSize),
    },
    intrinsic,
  }
}

type Wire = {
  readonly hash: string
  readonly from: string
  /** Numbers, as decimals. */
  readonly rollup: readonly [zeroBytes: string, nonZeroBytes: string, estimatedSize: string]
  readonly intrinsic: Digest['intrinsic']
}

function encode({ hash, from, rollup, intrinsic }: Digest): string {
  const { zeroBytes, nonZeroBytes, estimatedSize } = rollup
  const wire: Wire = {
    hash: bytesToHex(hash),
    from: bytesToHex(from),
    rollup: [`${zeroBytes}`, `${nonZeroBytes}`, `${estimatedSize}`],
    intrinsic,
  }
  return JSON.stringify(wire)
}
