/**
 * Validation of transactions for the txpool, and the digest of an envelope. Other threads compute
 * the digest for long envelopes, because the txpool's thread would have to read every byte.
 */
import { rollupData } from '../chainspec/l1-fee.ts'
import { intrinsicCounts } from '../execution/transaction/intrinsic-gas.ts'
import { type InvalidTransaction, invalid, refusal } from '../execution/transaction/invalid.ts'
import { blobGasOf, intrinsicInput, isTypeKnown } from '../execution/transaction/validation.ts'
import { type BlobSidecar, splitSidecar } from '../primitives/blob-sidecar.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { isSigned, type SignedTransaction } from '../primitives/transaction.ts'
import {
  decodeTransaction,
  openTransaction,
  TransactionError,
} from '../primitives/transaction-codec.ts'
import { checkBlobReplacement, checkSidecar } from './blob-rules.ts'
import { bumpedFee, type TxpoolLimits } from './limits.ts'
import type { Sender } from './sender.ts'
import type { Digest, Entry, TxpoolHead } from './types.ts'

type Refused = { readonly error: InvalidTransaction }

/**
 * Splits a submission into its envelope and the sidecar of a blob transaction, and checks their
 * sizes.
 */
export function openSubmitted(
  raw: Bytes,
  limits: TxpoolLimits,
): { readonly envelope: Bytes; readonly sidecar: BlobSidecar | undefined } | Refused {
  const { transactionBytes, blobTransactionBytes } = limits
  const max = raw[0] === 3 ? blobTransactionBytes : transactionBytes
  if (raw.length > max) return { error: refusal.oversized(raw.length, max) }
  return orRefused(() => {
    const opened = splitSidecar(raw)
    const { length } = opened.envelope
    return length > transactionBytes
      ? { error: refusal.oversized(length, transactionBytes) }
      : opened
  })
}

/**
 * Decodes a transaction of a type that the txpool may have; unsigned ones are refused.
 * @param digest present when the envelope was read before
 */
export function decodeSubmitted(
  envelope: Bytes,
  digest?: Digest,
): { readonly transaction: SignedTransaction } | Refused {
  return orRefused(() => {
    if (digest !== undefined) return { transaction: openTransaction(envelope, digest) }
    // A post-exec transaction is refused before its list of refunds is read.
    if (envelope[0] === 0x7d) return { error: refusal.type() }
    const transaction = decodeTransaction(envelope)
    return isSigned(transaction) ? { transaction } : { error: refusal.type() }
  })
}

/**
 * `proven`: the proofs of the sidecar were checked before, as for a transaction from a journal or a
 * block.
 */
export type Sidecar = BlobSidecar | 'proven' | undefined

/** Origin of a transaction and the checks that it has passed. */
export type Acceptance = {
  /** undefined: the transaction comes from the journal. */
  readonly journal: ((raw: Bytes) => void) | undefined
  readonly sidecar: Sidecar
  readonly digest: Digest | undefined
  /** Whether the gasless allowlist was checked, or does not apply. */
  readonly isListed: boolean
}

export const RESTORED: Acceptance = {
  journal: undefined,
  sidecar: 'proven',
  digest: undefined,
  isListed: true,
}

type Context = {
  readonly head: TxpoolHead
  readonly limits: TxpoolLimits
  readonly sidecar: Sidecar
  readonly digest: Digest | undefined
}

/**
 * Runs the checks that need no other transaction of the txpool, in geth's order.
 * @param context `nonce` is the sender's in the pending state
 */
export function checkTransaction(
  transaction: SignedTransaction,
  context: Context & { readonly nonce: bigint },
): { readonly cost: bigint; readonly isGasless: boolean } | Refused {
  const { head, nonce, limits, digest } = context
  const error =
    checkSubmission(transaction, limits.feeCap) ??
    checkForm(transaction, head) ??
    checkSigner(transaction, head) ??
    checkGas(transaction, context) ??
    checkLists(transaction, context)
  if (error !== undefined) return { error }
  if (transaction.nonce < nonce) return { error: invalid.nonceTooLow(nonce, transaction.nonce) }
  const { fee, daFootprint } = head.rollup(transaction, digest)
  if (daFootprint > head.gasLimit)
    return { error: invalid.daFootprintTooLarge(daFootprint, head.gasLimit) }
  const isGasless = isGaslessCandidate(transaction, head)
  const fees = isGasless
    ? 0n
    : transaction.gasLimit * feeCapOf(transaction) + blobFeeOf(transaction) + fee
  return { cost: fees + transaction.value, isGasless }
}

/** Checks the balance. `spent`: maximum cost of the sender's other transactions in the txpool. */
export function checkFunds(sums: {
  readonly balance: bigint
  readonly cost: bigint
  readonly spent: bigint
}): InvalidTransaction | undefined {
  const want = sums.cost + sums.spent
  return want <= sums.balance ? undefined : invalid.funds(sums.balance, want)
}

/**
 * Refuses a sender with transactions of the other kind, because geth's blob txpool shares no
 * senders.
 */
export function checkReserved(sender: Sender, { type }: SignedTransaction) {
  const [other] = sender.entries.values()
  if (other === undefined || (other.transaction.type === 3) === (type === 3)) return undefined
  return refusal.reserved()
}

/**
 * Checks that all fee fields rise enough. A transaction that the sequencer has cannot be replaced,
 * unless it was stopped before.
 */
export function checkReplacement(
  old: Entry,
  entry: Entry,
  limits: TxpoolLimits,
): InvalidTransaction | undefined {
  if (old.transaction.type === 3 && entry.transaction.type === 3)
    return checkBlobReplacement(old.transaction, entry.transaction, limits.blobPriceBumpPercent)
  const isEnough = (now: bigint, before: bigint) =>
    now > before && now >= bumpedFee(before, limits.priceBumpPercent)
  if (!isEnough(entry.feeCap, old.feeCap) || !isEnough(entry.tipCap, old.tipCap))
    return refusal.replacementUnderpriced()
  const { nonce } = entry.transaction
  const isTaken = old.state.status === 'selected' && !old.isStopped
  return isTaken ? invalid.nonceTooLow(nonce + 1n, nonce) : undefined
}

/** Checks what geth's RPC refuses before its txpool. */
function checkSubmission(
  transaction: SignedTransaction,
  feeCap: bigint,
): InvalidTransaction | undefined {
  const fee = transaction.gasLimit * feeCapOf(transaction)
  if (feeCap > 0n && fee > feeCap) return refusal.feeAboveCap(fee, feeCap)
  if (transaction.type === 0 && transaction.chainId === undefined) return refusal.unprotected()
  return undefined
}

function checkForm(
  transaction: SignedTransaction,
  head: TxpoolHead,
): InvalidTransaction | undefined {
  if (!isTypeKnown(transaction, head.rules)) return refusal.type()
  const { gas, maxInitCodeBytes: max, isOptimism } = head.rules
  const size = transaction.input.length
  if (transaction.to === undefined && max !== undefined && size > max)
    return refusal.initCodeSize(size, max)
  if (gas.limit !== undefined && transaction.gasLimit > gas.limit)
    return invalid.exceedsGasCap(gas.limit, transaction.gasLimit)
  const attributesGas = isOptimism ? ATTRIBUTES_GAS : 0n
  if (transaction.gasLimit > head.gasLimit - attributesGas) return invalid.exceedsBlockGasLimit()
  if ('maxFeePerGas' in transaction && transaction.maxPriorityFeePerGas > transaction.maxFeePerGas)
    return invalid.tipAboveFee()
  return undefined
}

function checkSigner(
  transaction: SignedTransaction,
  head: TxpoolHead,
): InvalidTransaction | undefined {
  const { chainId } = head.rules
  if (transaction.chainId !== undefined && transaction.chainId !== chainId)
    return refusal.chainId(transaction.chainId, chainId)
  if (transaction.nonce >= MAX_NONCE) return invalid.nonceMax()
  return head.isContract(transaction.from) ? invalid.senderIsContract() : undefined
}

function checkGas(
  transaction: SignedTransaction,
  { head, limits: { minimumTip }, digest }: Context,
): InvalidTransaction | undefined {
  const { gasLimit } = transaction
  const { intrinsic, floor } = head.minGas(transaction, digest)
  if (gasLimit < intrinsic) return refusal.intrinsicGasTooLow(gasLimit, intrinsic)
  if (gasLimit < floor) return refusal.floorGasTooLow(gasLimit, floor)
  const tip =
    'maxFeePerGas' in transaction ? transaction.maxPriorityFeePerGas : transaction.gasPrice
  if (tip < minimumTip && !isGaslessCandidate(transaction, head))
    return refusal.tipTooLow(tip, minimumTip)
  return undefined
}

function checkLists(
  transaction: SignedTransaction,
  { head, sidecar, digest }: Context,
): InvalidTransaction | undefined {
  if (
    transaction.type === 4 &&
    (digest?.intrinsic.authorizations ?? transaction.authorizationList.length) === 0
  )
    return refusal.noAuthorization()
  if (transaction.type !== 3 || sidecar === 'proven') return undefined
  return checkSidecar(transaction, sidecar, head.rules)
}

const blobFeeOf = (transaction: SignedTransaction) =>
  transaction.type === 3 ? blobGasOf(transaction) * transaction.maxFeePerBlobGas : 0n

/**
 * Returns whether this is a call without any fee, on a chain that may have a contract which allows
 * it.
 */
export const isFree = (transaction: SignedTransaction, { rules }: TxpoolHead) =>
  transaction.to !== undefined &&
  feeCapOf(transaction) === 0n &&
  rules.gaslessContract !== undefined

/** Returns whether this is a free call and the chain's contract exists. */
const isGaslessCandidate = (transaction: SignedTransaction, head: TxpoolHead) =>
  isFree(transaction, head) && head.hasCode(head.rules.gaslessContract!)

const feeCapOf = (transaction: SignedTransaction) =>
  'maxFeePerGas' in transaction ? transaction.maxFeePerGas : transaction.gasPrice

function orRefused<T>(decode: () => T): T | Refused {
  try {
    return decode()
  } catch (error) {
    if (error instanceof TransactionError) return { error: refusal.undecodable(error.message) }
    throw error
  }
}

/**
 * Maximum gas of an OP block's first transaction, the L1 attributes. It is not available to others
 * (op-geth: l1InfoGasOverhead).
 */
const ATTRIBUTES_GAS = 70_000n
const MAX_NONCE = 0xffff_ffff_ffff_ffffn

/** Computes the digest. The error is the refusal that the txpool itself would give. */
export function digestOf(
  envelope: Bytes,
): { readonly digest: Digest } | { readonly error: InvalidTransaction } {
  const decoded = decodeSubmitted(envelope)
  if ('error' in decoded) return decoded
  const { transaction } = decoded
  const { hash, from } = transaction
  const intrinsic = intrinsicCounts(intrinsicInput(transaction))
  return { digest: { hash, from, rollup: rollupData(envelope), intrinsic } }
}
