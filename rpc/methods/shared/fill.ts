/**
 * Completes a transaction object of a caller whose key the node has: fills in missing nonce, gas
 * and fees.
 */
import type { ChainView } from '../../../engine/chain/types.ts'
import { invalid } from '../../../engine/execution/transaction/invalid.ts'
import { type Bytes, NO_BYTES } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, quantity } from '../../../engine/primitives/hex.ts'
import { checksumAddress } from '../../../engine/primitives/keccak.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import {
  decodeTransaction,
  encodeTransaction,
  signingHash,
  transactionHash,
  type UnsignedTransaction,
} from '../../../engine/primitives/transaction-codec.ts'
import { equalBytes, ZERO_20 } from '../../../engine/primitives/words.ts'
import { readAccount } from '../../../engine/state/read.ts'
import { failed, invalidTransaction, unknownAccount } from '../../core/errors.ts'
import type { AccountService } from '../../core/ports.ts'
import type { transactionCall } from '../../json/codecs.ts'
import type { TypeOf } from '../../json/schema.ts'
import type { FrontContext } from '../../method/method.ts'
import { PENDING, resolveBlock, resolveState } from '../../method/resolve.ts'
import { suggestTip } from './gas-price.ts'

export type CallFields = TypeOf<typeof transactionCall>

/**
 * Returns the sender, which must be one of the node's accounts.
 * @throws {RpcError}
 */
export function ownSender({ from }: CallFields, accounts: AccountService): Bytes {
  const sender = from ?? ZERO_20
  if (!accounts.addresses().some((own) => equalBytes(own, sender))) throw unknownAccount()
  return sender
}

/**
 * Checks that the fields fit each other, this chain and the txpool's limits.
 * @throws {RpcError} with go-ethereum's texts
 */
export function checkFields(
  call: CallFields,
  { chain: { chainId }, limits: { transactionBytes } }: Pick<FrontContext, 'chain' | 'limits'>,
): void {
  const { gasPrice, maxFeePerGas, maxPriorityFeePerGas, data, input, to } = call
  if (gasPrice !== undefined && (maxFeePerGas ?? maxPriorityFeePerGas) !== undefined)
    throw failed('both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified')
  checkAuthorizations(call)
  checkBlobs(call)
  if (data !== undefined && input !== undefined && !equalBytes(data, input))
    throw failed(
      'both "data" and "input" are set and not equal. Please use "input" to pass transaction call data',
    )
  if (call.chainId !== undefined && call.chainId !== chainId)
    throw failed(`chainId does not match node's (have=${call.chainId}, want=${chainId})`)
  const content = input ?? data
  if (to === undefined && (content === undefined || content.length === 0))
    throw failed('contract creation without any data provided')
  if (maxFeePerGas !== undefined && (maxPriorityFeePerGas ?? 0n) > maxFeePerGas)
    throw failed(
      `maxFeePerGas (${quantity(maxFeePerGas)}) < maxPriorityFeePerGas (${quantity(maxPriorityFeePerGas!)})`,
    )
  const size = minSize(call)
  if (size > transactionBytes)
    throw failed(`oversized data: transaction size ${size}, limit ${transactionBytes}`)
}

/**
 * Checks the authorization list.
 * @throws {RpcError} for an invalid list, or one that the transaction's type would lose
 */
function checkAuthorizations({ from = ZERO_20, to, gasPrice, authorizationList }: CallFields) {
  if (authorizationList === undefined) return
  if (gasPrice !== undefined) throw failed('both gasPrice and authorizationList specified')
  if (authorizationList.length === 0)
    throw failed(`EIP-7702 transaction with empty auth list (sender ${checksumAddress(from)})`)
  if (to === undefined)
    throw failed('authorizationList provided for contract creation, but "to" field is missing')
}

/**
 * Refuses blob fields, because no chain on which the node has accounts has blobs.
 * @throws {RpcError}
 */
function checkBlobs(call: CallFields): void {
  const { to, blobVersionedHashes, maxFeePerBlobGas } = call
  const sidecar = call.blobs ?? call.commitments ?? call.proofs
  if ((blobVersionedHashes ?? maxFeePerBlobGas ?? sidecar) === undefined) return
  if (maxFeePerBlobGas === 0n) throw failed('maxFeePerBlobGas, if specified, must be non-zero')
  if (blobVersionedHashes?.length === 0) throw failed('need at least 1 blob for a blob transaction')
  if (blobVersionedHashes !== undefined && to === undefined)
    throw failed('missing "to" in blob transaction')
  throw invalidTransaction(invalid.type())
}

/**
 * Minimum bytes of the envelope. An oversized one is refused before it is encoded and hashed on the
 * front.
 */
function minSize({ data, input, accessList = [], authorizationList = [] }: CallFields): number {
  let size = (input ?? data ?? NO_BYTES).length + AUTHORIZATION_BYTES * authorizationList.length
  for (const { storageKeys } of accessList) size += 20 + 32 * storageKeys.length
  return size
}
/** Bytes of an authorization's address and signature. */
const AUTHORIZATION_BYTES = 84

/**
 * Fills in the missing fields.
 * @param options `estimate` returns the gas of the call, and runs only without a given gas
 * @throws {RpcError}
 */
export async function fillTransaction(
  context: FrontContext,
  call: CallFields,
  options: { readonly sender: Bytes; readonly estimate: () => Promise<bigint> },
): Promise<UnsignedTransaction> {
  const { chain, services } = context
  const { sender } = options
  const gasLimit = call.gas ?? (await options.estimate())
  const filled = (view: ChainView): UnsignedTransaction => {
    const nonce = call.nonce ?? services.transactions.nextNonce(sender, nonceOf(view, sender))
    const common = {
      nonce,
      gasLimit,
      to: call.to,
      value: call.value ?? 0n,
      input: call.input ?? call.data ?? NO_BYTES,
      chainId: chain.chainId,
    }
    const { gasPrice, accessList = [], authorizationList } = call
    if (gasPrice !== undefined)
      return call.accessList === undefined
        ? { ...common, type: 0, gasPrice }
        : { ...common, type: 1, gasPrice, accessList }
    const fees = feesOf(view, call)
    return authorizationList === undefined
      ? { ...common, ...fees, type: 2, accessList }
      : { ...common, ...fees, type: 4, accessList, authorizationList }
  }
  return context.withState(() => context.readNewest(filled), 'send')
}

const nonceOf = (view: ChainView, sender: Bytes): bigint =>
  readAccount(resolveState(view, PENDING), sender)?.nonce ?? 0n

/** Twice the base fee is enough for some full blocks in a row. */
function feesOf(
  view: ChainView,
  call: CallFields,
): { readonly maxFeePerGas: bigint; readonly maxPriorityFeePerGas: bigint } {
  const baseFee = resolveBlock(view, PENDING).header.baseFeePerGas ?? 0n
  const wished = call.maxPriorityFeePerGas ?? suggestTip(view)
  const maxFeePerGas = call.maxFeePerGas ?? wished + 2n * baseFee
  return { maxFeePerGas, maxPriorityFeePerGas: wished < maxFeePerGas ? wished : maxFeePerGas }
}

/**
 * Signs a transaction with the sender's key.
 * @throws {RpcError} when the node does not have the key
 */
export function signWith(
  accounts: AccountService,
  sender: Bytes,
  unsigned: UnsignedTransaction,
): SignedTransaction {
  const signature = accounts.sign(sender, signingHash(unsigned))
  if (signature === undefined) throw unknownAccount()
  const { r, s, yParity } = signature
  const isProtected = unsigned.type === 0 && unsigned.chainId !== undefined
  const base = unsigned.type !== 0 ? 0n : isProtected ? 35n + 2n * unsigned.chainId : 27n
  const signed = { ...unsigned, r, s, v: base + BigInt(yParity) }
  return decodeTransaction(
    encodeTransaction(signed as Omit<SignedTransaction, 'raw' | 'hash' | 'from'>),
    sender,
  ) as SignedTransaction
}

/** Returns go-ethereum's form of an unsigned transaction: an envelope with a zero signature. */
export function unsignedForm(unsigned: UnsignedTransaction, sender: Bytes): SignedTransaction {
  const fields = { ...unsigned, v: 0n, r: 0n, s: 0n }
  const raw = encodeTransaction(fields as Omit<SignedTransaction, 'raw' | 'hash' | 'from'>)
  return { ...fields, raw, hash: transactionHash(raw), from: sender } as SignedTransaction
}

export const turnKey = (sender: Bytes): string => bytesToHex(sender)
