/** What the txpool refuses, in geth's words. */
import { invalid as reasons } from '../execution/transaction/invalid.ts'
import type { InvalidTransaction } from '../execution/transaction/types.ts'
import { blobGasOf, isTypeKnown } from '../execution/transaction/validation.ts'
import { type BlobSidecar, splitSidecar } from '../primitives/blob-sidecar.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { SignedTransaction } from '../primitives/transaction.ts'
import {
  decodeTransaction,
  openTransaction,
  TransactionError,
} from '../primitives/transaction-codec.ts'
import { checkBlobReplacement, checkSidecar } from './blob-rules.ts'
import { bumpedFee, type TxpoolLimits } from './limits.ts'
import type { Sender } from './sender.ts'
import type { Digest, Entry, TxpoolHead } from './types.ts'

export const invalid = (
  message: string,
  why: InvalidTransaction['why'] = 'input',
): InvalidTransaction => ({ why, message })

type Refused = { readonly error: InvalidTransaction }

/** What was sent, within the limits: its envelope, and the sidecar of a blob transaction. */
export function openSubmitted(
  raw: Bytes,
  limits: TxpoolLimits,
): { readonly envelope: Bytes; readonly sidecar: BlobSidecar | undefined } | Refused {
  const { transactionBytes, blobTransactionBytes } = limits
  const most = raw[0] === 3 ? blobTransactionBytes : transactionBytes
  if (raw.length > most) return oversized(raw.length, most)
  return orRefused(() => {
    const opened = splitSidecar(raw)
    const { length } = opened.envelope
    return length > transactionBytes ? oversized(length, transactionBytes) : opened
  })
}

/** A transaction of a type that a txpool may hold: deposits are refused. `digest`: it was decoded before. */
export function decodeSubmitted(
  envelope: Bytes,
  digest?: Digest,
): { readonly transaction: SignedTransaction } | Refused {
  return orRefused(() => {
    if (digest !== undefined) return { transaction: openTransaction(envelope, digest) }
    const transaction = decodeTransaction(envelope)
    return transaction.type === 0x7e ? { error: typeNotSupported() } : { transaction }
  })
}

/** A sidecar whose proofs were checked before is `proven`; that of a transaction that comes out of a journal or a block was. */
export type Sidecar = BlobSidecar | 'proven' | undefined

/** How a transaction comes into the txpool. */
export type Acceptance = {
  /** undefined: it comes out of the journal. */
  readonly journal: ((raw: Bytes) => void) | undefined
  readonly sidecar: Sidecar
  readonly digest: Digest | undefined
  /** The whitelist was asked before, or need not be. */
  readonly isListed: boolean
}

/** Out of the journal. */
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

/** Checks that need no other transaction of the txpool, in geth's order. `nonce`: the sender's in the pending state. */
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
  if (transaction.nonce < nonce) return { error: nonceTooLow(transaction.nonce, nonce) }
  const { fee, daFootprint } = head.rollup(transaction, digest)
  if (daFootprint > head.gasLimit)
    return { error: reasons.daFootprintTooLarge(daFootprint, head.gasLimit) }
  const isGasless = isGaslessCandidate(transaction, head)
  const fees = isGasless
    ? 0n
    : transaction.gasLimit * feeCapOf(transaction) + blobFeeOf(transaction) + fee
  return { cost: fees + transaction.value, isGasless }
}

/** `spent`: what the sender's other transactions in the txpool can cost. */
export function checkFunds(sums: {
  readonly balance: bigint
  readonly cost: bigint
  readonly spent: bigint
}): InvalidTransaction | undefined {
  const want = sums.cost + sums.spent
  if (want <= sums.balance) return undefined
  return invalid(
    `insufficient funds for gas * price + value: have ${sums.balance} want ${want}`,
    'rejected',
  )
}

/** As in geth, whose txpool of blob transactions and whose other txpool share no sender. */
export function checkReserved(sender: Sender, { type }: SignedTransaction) {
  const [other] = sender.entries.values()
  if (other === undefined || (other.transaction.type === 3) === (type === 3)) return undefined
  return invalid('address already reserved')
}

/** All fee fields must rise by the bump, and at all; what the sequencer has is as good as included, unless it was stopped before. */
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
    return invalid('replacement transaction underpriced')
  const { nonce } = entry.transaction
  const isTaken = old.place.status === 'handed' && !old.isStopped
  return isTaken ? nonceTooLow(nonce, nonce + 1n) : undefined
}

const nonceTooLow = (nonce: bigint, next: bigint) =>
  invalid(`nonce too low: next nonce ${next}, tx nonce ${nonce}`)

/** What the RPC side of geth refuses before its txpool sees the transaction. */
function checkSubmission(
  transaction: SignedTransaction,
  feeCap: bigint,
): InvalidTransaction | undefined {
  const fee = transaction.gasLimit * feeCapOf(transaction)
  if (feeCap > 0n && fee > feeCap)
    return invalid(`tx fee (${fee} wei) exceeds the configured cap (${feeCap} wei)`)
  if (transaction.type === 0 && transaction.chainId === undefined)
    return invalid('only replay-protected (EIP-155) transactions allowed over RPC')
  return undefined
}

function checkForm(
  transaction: SignedTransaction,
  head: TxpoolHead,
): InvalidTransaction | undefined {
  if (!isTypeKnown(transaction, head.rules)) return typeNotSupported()
  const { gas, maxInitCodeBytes: most, isOptimism } = head.rules
  const size = transaction.input.length
  if (transaction.to === undefined && most !== undefined && size > most)
    return invalid(`max initcode size exceeded: code size ${size} limit ${most}`)
  if (gas.limit !== undefined && transaction.gasLimit > gas.limit)
    return reasons.exceedsGasCap(gas.limit, transaction.gasLimit)
  const attributesGas = isOptimism ? ATTRIBUTES_GAS : 0n
  if (transaction.gasLimit > head.gasLimit - attributesGas)
    return invalid('exceeds block gas limit')
  if ('maxFeePerGas' in transaction && transaction.maxPriorityFeePerGas > transaction.maxFeePerGas)
    return invalid('max priority fee per gas higher than max fee per gas', 'rejected')
  return undefined
}

function checkSigner(
  transaction: SignedTransaction,
  head: TxpoolHead,
): InvalidTransaction | undefined {
  const { chainId } = head.rules
  if (transaction.chainId !== undefined && transaction.chainId !== chainId)
    return invalid(
      `invalid sender: invalid chain id for signer: have ${transaction.chainId} want ${chainId}`,
    )
  if (transaction.nonce >= MAX_NONCE) return invalid('nonce has max value', 'rejected')
  return undefined
}

function checkGas(
  transaction: SignedTransaction,
  { head, limits: { minimumTip }, digest }: Context,
): InvalidTransaction | undefined {
  const { gasLimit } = transaction
  const { intrinsic, floor } = head.leastGas(transaction, digest)
  if (gasLimit < intrinsic)
    return invalid(`intrinsic gas too low: gas ${gasLimit}, minimum needed ${intrinsic}`)
  if (gasLimit < floor)
    return invalid(
      `insufficient gas for floor data gas cost: gas ${gasLimit}, minimum needed ${floor}`,
    )
  const tip =
    'maxFeePerGas' in transaction ? transaction.maxPriorityFeePerGas : transaction.gasPrice
  if (tip < minimumTip && !isGaslessCandidate(transaction, head))
    return invalid(`transaction underpriced: gas tip cap ${tip}, minimum needed ${minimumTip}`)
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
    return invalid('set code tx must have at least one authorization tuple')
  if (transaction.type !== 3 || sidecar === 'proven') return undefined
  return checkSidecar(transaction, sidecar, head.rules)
}

const blobFeeOf = (transaction: SignedTransaction) =>
  transaction.type === 3 ? blobGasOf(transaction) * transaction.maxFeePerBlobGas : 0n

/** A call that offers no fee at all, on a chain that may have a contract which lets it pass. */
export const isFree = (transaction: SignedTransaction, { rules }: TxpoolHead) =>
  transaction.to !== undefined &&
  feeCapOf(transaction) === 0n &&
  rules.gaslessContract !== undefined

/** A free call on a chain whose contract stands. */
const isGaslessCandidate = (transaction: SignedTransaction, head: TxpoolHead) =>
  isFree(transaction, head) && head.hasCode(head.rules.gaslessContract!)

const feeCapOf = (transaction: SignedTransaction) =>
  'maxFeePerGas' in transaction ? transaction.maxFeePerGas : transaction.gasPrice

const typeNotSupported = () => invalid('transaction type not supported')
const oversized = (size: number, limit: number): Refused => ({
  error: invalid(`oversized data: transaction size ${size}, limit ${limit}`),
})

function orRefused<T>(decode: () => T): T | Refused {
  try {
    return decode()
  } catch (error) {
    if (error instanceof TransactionError) return { error: invalid(error.message) }
    throw error
  }
}

/** What the first transaction of an OP block, its L1 attributes, may use: no other has that much left (op-geth: l1InfoGasOverhead). */
const ATTRIBUTES_GAS = 70_000n
const MAX_NONCE = 0xffff_ffff_ffff_ffffn
