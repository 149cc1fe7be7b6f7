/**
 * The network form of a blob transaction: its envelope with blobs, commitments and proofs
 * (EIP-4844, EIP-7594).
 */
import { createHash } from 'node:crypto'
import type { Bytes } from './bytes.ts'
import { RlpError, spanAt } from './rlp.ts'
import { TransactionError } from './transaction-codec.ts'
import { bytesToBigint, concatBytes } from './words.ts'

export type BlobSidecar = {
  /** 0: a proof per blob; 1: a proof per cell of a blob (from Osaka on). */
  readonly version: 0 | 1
  /** 4,096 field elements of 32 bytes each. */
  readonly blobs: readonly Bytes[]
  /** 48 bytes each, like the proofs. */
  readonly commitments: readonly Bytes[]
  readonly proofs: readonly Bytes[]
}

export const BLOB_BYTES = 131_072
/** Size of a commitment and of a proof, which are compressed points. */
export const POINT_BYTES = 48
export const CELLS_PER_BLOB = 128

/**
 * Splits the network form of a blob transaction into its hashed envelope and its sidecar. Any other
 * transaction is its own envelope.
 * An envelope with a sidecar is a copy; the parts of the sidecar are views. Only the outer lists
 * are checked.
 * @throws {TransactionError} with geth's texts
 */
export function splitSidecar(raw: Bytes): {
  readonly envelope: Bytes
  readonly sidecar: BlobSidecar | undefined
} {
  if (raw[0] !== BLOB_TYPE) return { envelope: raw, sidecar: undefined }
  try {
    const [outer, ...rest] = itemsOf(raw, { start: 1, next: raw.length }, 2)
    const isWrapper = outer?.isList === true && isListAt(raw, outer.start)
    if (!isWrapper) return { envelope: raw, sidecar: undefined }
    if (rest.length > 0) throw new RlpError('rlp: input contains more than one value')
    const items = itemsOf(raw, outer, MAX_ITEMS)
    const [body] = items
    const envelope = concatBytes(Uint8Array.of(BLOB_TYPE), raw.subarray(body!.at, body!.next))
    return { envelope, sidecar: readSidecar(raw, items.slice(1)) }
  } catch (error) {
    if (error instanceof RlpError) throw new TransactionError('malformed', error.message)
    throw error
  }
}

/** Returns the 32 bytes that name a blob in a transaction. */
export function versionedHash(commitment: Bytes): Bytes {
  const hash = Uint8Array.from(createHash('sha256').update(commitment).digest())
  hash[0] = 1
  return hash
}

const BLOB_TYPE = 3

/** An item at `at`, with its content from `start` to `next`. */
type Span = {
  readonly at: number
  readonly start: number
  readonly next: number
  readonly isList: boolean
}

const isListAt = (data: Bytes, at: number) => (data[at] ?? 0) >= 0xc0

/** One more than the maximum, so that an excess is noticed. */
const MAX_ITEMS = 6

function itemsOf(data: Bytes, list: Pick<Span, 'start' | 'next'>, max: number): Span[] {
  const within = data.subarray(0, list.next)
  const spans: Span[] = []
  for (let at = list.start; at < list.next && spans.length < max; at = spans.at(-1)!.next)
    spans.push({ at, ...spanAt(within, at), isList: isListAt(data, at) })
  return spans
}

function readSidecar(data: Bytes, items: readonly Span[]): BlobSidecar {
  const version = items[0] === undefined || items[0].isList ? 0 : 1
  const name = `types.blobTxWithBlobsV${version}`
  const lists = items.slice(version)
  if (lists.length < 3) throw new RlpError(`rlp: too few elements for ${name}`)
  if (lists.length > 3) throw new RlpError(`rlp: input list has too many elements for ${name}`)
  const [blobs, commitments, proofs] = FIELDS.map((field, index) =>
    readStrings(data, lists[index]!, { ...field, owner: name }),
  )
  if (version === 1) checkVersion(data.subarray(items[0]!.start, items[0]!.next))
  return { version, blobs: blobs!, commitments: commitments!, proofs: proofs! }
}

function checkVersion(bytes: Bytes): void {
  if (bytes.length > 1)
    throw new RlpError(
      'rlp: input string too long for uint8, decoding into (types.blobTxWithBlobsV1).Version',
    )
  const version = bytesToBigint(bytes)
  if (version !== 1n)
    throw new TransactionError('malformed', `unsupported blob tx version ${version}`)
}

const FIELDS = [
  { field: 'Blobs', type: 'kzg4844.Blob', length: BLOB_BYTES },
  { field: 'Commitments', type: 'kzg4844.Commitment', length: POINT_BYTES },
  { field: 'Proofs', type: 'kzg4844.Proof', length: POINT_BYTES },
] as const
type Strings = (typeof FIELDS)[number] & { readonly owner: string }

function readStrings(data: Bytes, list: Span, { field, type, length, owner }: Strings): Bytes[] {
  const into = `decoding into (${owner}).${field}`
  if (!list.isList) throw new RlpError(`rlp: expected input list for []${type}, ${into}`)
  const within = data.subarray(0, list.next)
  const strings: Bytes[] = []
  // The first string of a wrong length ends the loop, so the number of strings is limited.
  for (let at = list.start; at < list.next; ) {
    const { start, next } = spanAt(within, at)
    if (isListAt(data, at) || next - start !== length) {
      const where = `for ${type}, ${into}[${strings.length}]`
      if (isListAt(data, at)) throw new RlpError(`rlp: expected input string or byte ${where}`)
      const fault = next - start < length ? 'short' : 'long'
      throw new RlpError(`rlp: input string too ${fault} ${where}`)
    }
    strings.push(data.subarray(start, next))
    at = next
  }
  return strings
}
