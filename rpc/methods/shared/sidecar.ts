/**
 * Internal pool method that checks the proofs of a blob transaction before the txpool takes it;
 * clients cannot call it.
 */
import {
  BLOB_BYTES,
  type BlobSidecar,
  POINT_BYTES,
} from '../../../engine/primitives/blob-sidecar.ts'
import { timedOut } from '../../core/errors.ts'
import { hexText } from '../../json/codecs.ts'
import { orNull, stringResult } from '../../json/results.ts'
import { array, text } from '../../json/schema.ts'
import { param, poolMethod } from '../../method/method.ts'

const hexCharacters = (bytes: number) => 2 + 2 * bytes
const point = text('Point', hexCharacters(POINT_BYTES))
/** More than a transaction can have. */
const MAX_BLOBS = 16
const MAX_PROOFS = 4_096

export const proveSidecar = poolMethod({
  name: 'proveSidecar',
  summary: 'The fault in the proofs of blobs; null if they are valid.',
  runs: 'sidecar',
  params: [
    param('Blobs', array(text('Blob', hexCharacters(BLOB_BYTES)), MAX_BLOBS)),
    param('Commitments', array(point, MAX_BLOBS)),
    param('Proofs, as many for each blob', array(point, MAX_PROOFS)),
  ],
  result: orNull(stringResult('Fault')),
  async handler({ isExpired }, blobs, commitments, proofs) {
    const { faultOfBlob } = await import('../../../engine/primitives/kzg.ts')
    const ofEach = proofs.length / blobs.length
    for (const [index, blob] of blobs.entries()) {
      if (isExpired()) throw timedOut()
      const own = proofs.slice(index * ofEach, (index + 1) * ofEach)
      const fault = faultOfBlob({ blob, commitment: commitments[index]!, proofs: own })
      if (fault !== undefined) return fault
    }
    return undefined
  },
})

/** Encodes the parameters of `proveSidecar` as JSON text; hex needs no escapes. */
export const sidecarText = ({ blobs, commitments, proofs }: BlobSidecar): string =>
  `[${[blobs, commitments, proofs].map((all) => `[${all.map(hexText).join(',')}]`).join(',')}]`
