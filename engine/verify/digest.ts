/** Sets of rows that are compared without being kept: the sum of a checksum of each, in whatever order they come. */

import type { Bytes } from '../primitives/bytes.ts'
import { checksum } from '../primitives/checksum.ts'
import { concatBytes } from '../primitives/words.ts'

export type Digest = { sum: bigint; count: number }
export const newDigest = (): Digest => ({ sum: 0n, count: 0 })

export function addTo(digest: Digest, ...parts: readonly Bytes[]): void {
  digest.sum = BigInt.asUintN(64, digest.sum + checksum(concatBytes(...parts)))
  digest.count++
}
