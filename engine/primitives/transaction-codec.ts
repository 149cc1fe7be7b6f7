/**
 * Encoding and decoding of transaction envelopes (EIP-2718) of every type, with signing and
 * recovery. Error texts are geth's.
 */
import { type Bytes, NO_BYTES } from './bytes.ts'
import { keccak256 } from './keccak.ts'
import { encodeRlp, RlpError, type RlpItem, rlpUint } from './rlp.ts'
import { MAX_LOW_S, recoverAddress, sign } from './signature.ts'
import type {
  DepositTransaction,
  GasRefund,
  PostExecTransaction,
  SignedEnvelope,
  SignedTransaction,
  Transaction,
} from './transaction.ts'
import { formOf, peekFields, readFields, type Values, writeFields } from './transaction-forms.ts'
import { bigintToBytes, concatBytes, ZERO_20 } from './words.ts'

/** A transaction before signing: the fields of its signing hash. */
export type UnsignedTransaction = Distribute<SignedTransaction>
type Distribute<T> = T extends SignedTransaction
  ? Omit<T, 'raw' | 'hash' | 'from' | 'v' | 'r' | 's'>
  : never

/** The bytes are not a transaction: wrong form, unknown type, or invalid signature. */
export class TransactionError extends Error {
  override name = 'TransactionError'
  readonly reason: 'malformed' | 'type' | 'signature' | 'size'
  constructor(reason: TransactionError['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

/**
 * The limit is above what a block's gas can pay for as calldata. The txpool has a smaller limit of
 * its own.
 */
export const MAX_TRANSACTION_BYTES = 32 * 1024 * 1024

/** Returns the type of an envelope with an unknown type; undefined: the type is known. */
export function unknownType(raw: Bytes): number | undefined {
  const type = raw[0]
  if (type === undefined || type > 0x7f) return undefined
  return type === 0 || formOf(type) === undefined ? type : undefined
}

/** Returns the sender of a transaction that was decoded before. */
export type SenderOf = (hash: Bytes) => Bytes | undefined

/**
 * Decodes `raw` and checks form, type and signature. The caller checks chain id, fees and gas.
 * Byte strings are views into `raw`, which must not change afterwards.
 * @param from the known sender, or a lookup by hash; the sender is then not recovered
 * @throws {TransactionError} when the bytes are not a valid transaction
 */
export function decodeTransaction(raw: Bytes, from?: Bytes | SenderOf): Transaction {
  if (raw.length > MAX_TRANSACTION_BYTES)
    throw new TransactionError(
      'size',
      `oversized data: transaction size ${raw.length}, limit ${MAX_TRANSACTION_BYTES}`,
    )
  const isLegacy = raw.length > 0 && raw[0]! > 0x7f
  if (!isLegacy && raw.length < 2)
    throw new TransactionError('malformed', 'typed transaction too short')
  const form = formOf(isLegacy ? 0 : raw[0]!)
  // Type 0 has no envelope, so that a first byte of 0 is no type.
  if (form === undefined || (!isLegacy && form.type === 0))
    throw new TransactionError('type', TYPE_NOT_SUPPORTED)
  try {
    const fields = readFields(form, isLegacy ? raw : raw.subarray(1))
    const hash = transactionHash(raw)
    if (form.type === 0x7e) return { ...fields, type: 0x7e, raw, hash } as DepositTransaction
    if (form.type === 0x7d) return postExecOf(fields, { raw, hash })
    const signed = {
      ...fields,
      type: form.type,
      ...(isLegacy ? { chainId: chainIdOf(fields) } : {}),
    }
    // `readFields` has read every field of `form` by its kind, so the object matches `type`.
    const bare = { ...signed, raw, hash } as unknown as Omit<SignedTransaction, 'from'>
    const known = typeof from === 'function' ? from(hash) : from
    return { ...bare, from: known ?? signerOf(bare as SignedTransaction) } as SignedTransaction
  } catch (error) {
    if (error instanceof RlpError) throw new TransactionError('malformed', error.message)
    throw error
  }
}

/**
 * Opens a signed envelope that `decodeTransaction` has accepted, perhaps in another thread.
 * Nothing is hashed or recovered, and lists are decoded on first use. Byte strings are views into
 * `raw`.
 * @throws {TransactionError} for other bytes, if noticed
 */
export function openTransaction(
  raw: Bytes,
  known: Pick<SignedTransaction, 'hash' | 'from'>,
): SignedTransaction {
  const isLegacy = raw[0]! > 0x7f
  const form = formOf(isLegacy ? 0 : (raw[0] ?? 0))
  if (form === undefined || form.type >= 0x7d || (form.type === 0) !== isLegacy)
    throw new TransactionError('type', TYPE_NOT_SUPPORTED)
  try {
    const fields = peekFields(form, isLegacy ? raw : raw.subarray(1))
    const chain = isLegacy ? { chainId: chainIdOf(fields) } : undefined
    const { hash, from } = known
    // The cast is safe as in `decodeTransaction`. Spreading `fields` would decode the lists.
    return Object.assign(fields, {
      type: form.type,
      ...chain,
      raw,
      hash,
      from,
    }) as SignedTransaction
  } catch (error) {
    throw error instanceof RlpError ? new TransactionError('malformed', error.message) : error
  }
}

export const envelopeOf = ({ raw, from }: SignedTransaction): SignedEnvelope => ({ raw, from })

/** Encodes the fields. The result equals `raw` of a decoded transaction. */
export function encodeTransaction(
  transaction:
    | Omit<SignedTransaction, 'raw' | 'hash' | 'from'>
    | Omit<DepositTransaction, 'raw' | 'hash'>
    | Pick<PostExecTransaction, 'type' | 'version' | 'blockNumber' | 'refunds'>,
): Bytes {
  return envelope(transaction.type, writeFields(fieldsOf(transaction), transaction))
}

/** Returns the 32-byte hash of an envelope. */
export function transactionHash(raw: Bytes): Bytes {
  return keccak256(raw)
}

export function signingHash(transaction: UnsignedTransaction): Bytes {
  // The last three fields are the signature.
  const items = writeFields(fieldsOf(transaction).slice(0, -3), transaction)
  if (transaction.type === 0 && transaction.chainId !== undefined)
    items.push(rlpUint(transaction.chainId), NO_BYTES, NO_BYTES)
  return keccak256(envelope(transaction.type, items))
}

/**
 * Signs a transaction.
 * @param key 32 bytes
 * @throws {RangeError} when the key is invalid
 */
export function signTransaction(unsigned: UnsignedTransaction, key: Bytes): SignedTransaction {
  const { r, s, yParity } = sign(signingHash(unsigned), key)
  const parity = BigInt(yParity)
  const isProtected = unsigned.type === 0 && unsigned.chainId !== undefined
  const legacyBase = isProtected ? 35n + 2n * unsigned.chainId : 27n
  const v = unsigned.type === 0 ? legacyBase + parity : parity
  return decodeTransaction(
    encodeTransaction({ ...unsigned, v, r, s } as SignedTransaction),
  ) as SignedTransaction
}

export function makeDeposit(
  fields: Omit<DepositTransaction, 'type' | 'raw' | 'hash'>,
): DepositTransaction {
  const raw = encodeTransaction({ ...fields, type: 0x7e })
  return { ...fields, type: 0x7e, raw, hash: transactionHash(raw) }
}

/**
 * Makes a post-exec transaction with its envelope and hash.
 * @throws {TransactionError} for refunds that no block may have
 */
export function makePostExec(
  blockNumber: bigint,
  refunds: readonly GasRefund[],
): PostExecTransaction {
  const fields = { type: 0x7d, version: POST_EXEC_VERSION, blockNumber, refunds } as const
  return decodeTransaction(encodeTransaction(fields)) as PostExecTransaction
}

/** Returns the signer, whatever `from` says; undefined: the signature is invalid. */
export function recoverSender(transaction: SignedTransaction): Bytes | undefined {
  const { r, s, v } = transaction
  const isParity = transaction.type === 0 || v <= 1n
  return isParity && s <= MAX_LOW_S
    ? recoverAddress(signingHash(transaction), r, s, yParityOf(transaction))
    : undefined
}

/** Returns the parity of a signature from either meaning of `v`. */
export function yParityOf(transaction: SignedTransaction): 0 | 1 {
  const { v } = transaction
  if (transaction.type !== 0) return v === 0n ? 0 : 1
  return (v === 27n || v === 28n ? v - 27n : v - 35n) % 2n === 0n ? 0 : 1
}

/**
 * Returns the source hash of a deposit.
 * @param domain 0: a user's deposit (L1 block hash, log index as 32 bytes). 1: L1 attributes (L1
 * block hash, sequence number as 32 bytes). 2: an upgrade (keccak of its intent; `index` unused).
 */
export function sourceHash(domain: 0 | 1 | 2, origin: Bytes, index = 0n): Bytes {
  const payload = domain === 2 ? origin : concatBytes(origin, bigintToBytes(index, 32))
  return keccak256(concatBytes(bigintToBytes(BigInt(domain), 32), keccak256(payload)))
}

/**
 * Returns the address of the contract that `from` creates at `nonce` by a transaction or CREATE, 20
 * bytes.
 */
export function createAddress(from: Bytes, nonce: bigint): Bytes {
  return keccak256(encodeRlp([from, rlpUint(nonce)])).slice(12)
}

const TYPE_NOT_SUPPORTED = 'transaction type not supported'
const INVALID_SIGNATURE = 'invalid sender: invalid transaction v, r, s values'

const fieldsOf = ({ type }: Pick<Transaction, 'type'>) => formOf(type)!.fields

function envelope(type: number, items: readonly RlpItem[]): Bytes {
  const body = encodeRlp(items)
  return type === 0 ? body : concatBytes(Uint8Array.of(type), body)
}

/** Returns the chain id within a legacy `v` (EIP-155). */
function chainIdOf(fields: Values): bigint | undefined {
  const { v } = fields as { readonly v: bigint }
  if (v === 27n || v === 28n) return undefined
  if (v < 35n) throw new TransactionError('signature', INVALID_SIGNATURE)
  return (v - 35n) / 2n
}

/**
 * Makes a post-exec transaction from its decoded fields.
 * @throws {TransactionError} for invalid refunds
 */
function postExecOf(fields: Values, { raw, hash }: Pick<Transaction, 'raw' | 'hash'>) {
  const given = fields as Pick<PostExecTransaction, 'version' | 'blockNumber' | 'refunds'>
  const fault = refundFault(given)
  if (fault !== undefined) throw new TransactionError('malformed', `post-exec: ${fault}`)
  const nothing = { from: ZERO_20, to: ZERO_20, value: 0n, gasLimit: 0n }
  const input = raw.subarray(1)
  return { ...given, type: 0x7d, raw, hash, ...nothing, input } satisfies PostExecTransaction
}

/**
 * Checks the rules of a payload that need no block (specs.optimism.io: Lagoon, Sequencer-Defined
 * Metering).
 */
function refundFault({
  version,
  refunds,
}: Pick<PostExecTransaction, 'version' | 'refunds'>): string | undefined {
  if (version !== POST_EXEC_VERSION) return `version ${version}, ${POST_EXEC_VERSION} is known`
  if (refunds.length === 0) return 'no refunds'
  let before = -1n
  for (const { index, gasRefund } of refunds) {
    if (index <= before) return `index ${index} after ${before}`
    if (gasRefund === 0n) return `a refund of 0 for transaction ${index}`
    before = index
  }
  return undefined
}
const POST_EXEC_VERSION = 1n

function signerOf(transaction: SignedTransaction): Bytes {
  const from = recoverSender(transaction)
  if (from === undefined) throw new TransactionError('signature', INVALID_SIGNATURE)
  return from
}
