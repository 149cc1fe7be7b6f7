/**
 * Additional rules of the txpool for blob transactions, with geth's texts. Proofs are not checked
 * here.
 */
import type { Rules } from '../chainspec/types.ts'
import { type InvalidTransaction, refusal } from '../execution/transaction/invalid.ts'
import { type BlobSidecar, CELLS_PER_BLOB, versionedHash } from '../primitives/blob-sidecar.ts'
import { bytesToHex } from '../primitives/hex.ts'
import type { BlobTransaction } from '../primitives/transaction.ts'
import { equalBytes } from '../primitives/words.ts'
import { bumpedFee } from './limits.ts'

/** Checks fee cap, counts, versioned hashes, and the sidecar's form at this fork. */
export function checkSidecar(
  transaction: BlobTransaction,
  sidecar: BlobSidecar | undefined,
  rules: Rules,
): InvalidTransaction | undefined {
  const { blobVersionedHashes: hashes, maxFeePerBlobGas } = transaction
  if (maxFeePerBlobGas < MIN_BLOB_FEE) return refusal.blobFeeTooLow(maxFeePerBlobGas, MIN_BLOB_FEE)
  if (sidecar === undefined) return refusal.sidecar('missing sidecar in blob transaction')
  const limit = rules.maxBlobsOfTransaction ?? Number(rules.blobs?.max ?? 0n)
  if (hashes.length > limit) return refusal.tooManyBlobs(hashes.length, limit)
  return checkHashes(hashes, sidecar.commitments) ?? checkSidecarForm(sidecar, rules)
}

/** Checks that every fee field rises, and by at least `bumpPercent`. */
export function checkBlobReplacement(
  old: BlobTransaction,
  now: BlobTransaction,
  bumpPercent: number,
): InvalidTransaction | undefined {
  const fees: readonly [name: string, old: bigint, now: bigint][] = [
    ['gas fee cap', old.maxFeePerGas, now.maxFeePerGas],
    ['gas tip cap', old.maxPriorityFeePerGas, now.maxPriorityFeePerGas],
    ['blob gas fee cap', old.maxFeePerBlobGas, now.maxFeePerBlobGas],
  ]
  const underpriced = (why: string) => refusal.replacementUnderpriced(`: new tx ${why}`)
  for (const [name, before, after] of fees)
    if (after <= before) return underpriced(`${name} ${after} <= ${before} queued`)
  for (const [name, before, after] of fees)
    if (after < bumpedFee(before, bumpPercent))
      return underpriced(
        `${name} ${after} < ${before} queued + ${bumpPercent}% replacement penalty`,
      )
  return undefined
}

const MIN_BLOB_FEE = 1n

function checkHashes(
  hashes: BlobTransaction['blobVersionedHashes'],
  commitments: BlobSidecar['commitments'],
): InvalidTransaction | undefined {
  if (commitments.length !== hashes.length)
    return refusal.sidecar(
      `invalid number of ${commitments.length} blob commitments compared to ${hashes.length} blob hashes`,
    )
  for (const [index, hash] of hashes.entries()) {
    const computed = versionedHash(commitments[index]!)
    if (!equalBytes(computed, hash))
      return refusal.sidecar(
        `blob ${index}: computed hash ${bytesToHex(computed)} mismatches transaction one ${bytesToHex(hash)}`,
      )
  }
  return undefined
}

function checkSidecarForm(sidecar: BlobSidecar, rules: Rules): InvalidTransaction | undefined {
  const { blobs, commitments, proofs, version } = sidecar
  const wanted = rules.sidecarVersion
  if (version !== wanted)
    return wrongForm(`unexpected sidecar version, want: ${wanted}, got: ${version}`)
  const wantedProofs = commitments.length * (version === 1 ? CELLS_PER_BLOB : 1)
  if (proofs.length !== wantedProofs)
    return wrongForm(`invalid number of ${proofs.length} blob proofs expected ${wantedProofs}`)
  if (blobs.length === 0) return refusal.sidecar('blobless blob transaction')
  if (blobs.length !== commitments.length)
    return refusal.sidecar(
      `invalid number of ${blobs.length} blobs compared to ${commitments.length} commitments`,
    )
  return undefined
}

const wrongForm = (why: string) => refusal.sidecar(`Wrong sidecar format: ${why}`)
