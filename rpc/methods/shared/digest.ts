/**
 * Internal pool method that digests a long transaction before the txpool takes it; clients cannot
 * call it.
 */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import type { Digest } from '../../../engine/txpool/types.ts'
import { digestOf } from '../../../engine/txpool/validation.ts'
import { invalidTransaction } from '../../core/errors.ts'
import { bytes, hexText } from '../../json/codecs.ts'
import { textResult } from '../../json/results.ts'
import { param, poolMethod } from '../../method/method.ts'

export const digestTransaction = poolMethod({
  name: 'digestTransaction',
  summary: 'Hash, sender and measures of a raw transaction; an error if it is not a transaction.',
  runs: 'call',
  params: [param('Envelope', bytes)],
  result: textResult('Digest', { type: 'object' }),
  handler(_, envelope) {
    const made = digestOf(envelope)
    if ('digest' in made) return encode(made.digest)
    throw invalidTransaction(made.error)
  },
})

/** Encodes the parameters of `digestTransaction` as JSON text. */
export const envelopeText = (envelope: Bytes): string => `[${hexText(envelope)}]`

/** Decodes the result of `digestTransaction`. */
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
  /** Numbers as decimal text. */
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
