/** Checks whether a signed transaction may run now, in the order of go-ethereum and reth. */

import { daFootprint, type L1FeeParameters, type RollupData } from '../../chainspec/l1-fee.ts'
import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Session } from '../../evm/engine.ts'
import { MAX_NONCE } from '../../evm/nonce-limit.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import type { AccessList, Authorization, SignedTransaction } from '../../primitives/transaction.ts'
import { equalBytes } from '../../primitives/words.ts'
import { intrinsicGas } from './intrinsic-gas.ts'
import { type InvalidTransaction, invalid } from './invalid.ts'

/** Gas that the block has left for a transaction. */
export type GasPool = {
  readonly gas: bigint
  /** DA footprint (Jovian): the rest, and the limit of an empty block. undefined means no limit. */
  readonly daFootprint: { readonly left: bigint; readonly limit: bigint } | undefined
  readonly blobGas: bigint
}

/** Checks that need no state, so that a failure is permanent. */
export function checkForm(
  transaction: SignedTransaction,
  rules: Rules,
): InvalidTransaction | undefined {
  if (!isTypeKnown(transaction, rules)) return invalid.type()
  if (transaction.chainId !== undefined && transaction.chainId !== rules.chainId)
    return invalid.chainId()
  const { maxFee, maxTip } = feesOf(transaction)
  if (maxTip > maxFee) return invalid.tipAboveFee()
  const { gas, maxInitCodeBytes } = rules
  if (gas.limit !== undefined && transaction.gasLimit > gas.limit)
    return invalid.exceedsGasCap(gas.limit, transaction.gasLimit)
  if (transaction.to === undefined && maxInitCodeBytes !== undefined)
    if (transaction.input.length > maxInitCodeBytes) return invalid.initCodeSize()
  return checkLists(transaction, rules) ?? checkIntrinsicGas(transaction, rules)
}

export function checkIntrinsicGas(
  transaction: SignedTransaction,
  rules: Rules,
): InvalidTransaction | undefined {
  const { gas, floor } = intrinsicGas(intrinsicInput(transaction), rules)
  const min = gas > floor ? gas : floor
  return transaction.gasLimit < min ? invalid.intrinsicGasTooLow() : undefined
}

/**
 * Checks the sender's nonce, and that the sender is no contract (EIP-3607). A delegation is allowed
 * (EIP-7702).
 */
export function checkSender(
  transaction: SignedTransaction,
  session: Session,
): InvalidTransaction | undefined {
  const { nonce, codeHash } = session.account(transaction.from)
  if (transaction.nonce < nonce) return invalid.nonceTooLow(nonce, transaction.nonce)
  if (transaction.nonce > nonce) return invalid.nonceTooHigh()
  if (nonce === MAX_NONCE) return invalid.nonceMax()
  if (!equalBytes(codeHash, EMPTY_HASH) && !isDelegation(session.code(transaction.from)))
    return invalid.senderIsContract()
  return undefined
}

/** Checks fees against the block's; not used for a gasless transaction (gasless.ts). */
export function checkFees(
  transaction: SignedTransaction,
  env: BlockEnv,
): InvalidTransaction | undefined {
  if (feesOf(transaction).maxFee < env.baseFee) return invalid.feeBelowBaseFee()
  if (transaction.type === 3 && transaction.maxFeePerBlobGas < env.blobBaseFee)
    return invalid.blobFee()
  return undefined
}

export function checkGasPool(
  transaction: SignedTransaction,
  gasPool: GasPool,
  l1:
    | { readonly data: RollupData; readonly parameters: L1FeeParameters; readonly rules: Rules }
    | undefined,
): InvalidTransaction | undefined {
  if (transaction.gasLimit > gasPool.gas) return invalid.exceedsBlockGasLimit()
  if (transaction.type === 3 && blobGasOf(transaction) > gasPool.blobGas) return invalid.blobGas()
  if (l1 === undefined || gasPool.daFootprint === undefined) return undefined
  const { left, limit } = gasPool.daFootprint
  const footprint = daFootprint(l1.data, l1.parameters, l1.rules)
  if (footprint > limit) return invalid.daFootprintTooLarge(footprint, limit)
  return footprint > left ? invalid.exceedsDaFootprintLimit() : undefined
}

/** A delegation is 0xef0100 followed by an address (EIP-7702). */
export const isDelegation = (code: Bytes): boolean =>
  code.length === 23 && code[0] === 0xef && code[1] === 0x01 && code[2] === 0x00

/** Maximum wei per gas that the sender offers. */
export function feesOf(transaction: SignedTransaction): {
  readonly maxFee: bigint
  readonly maxTip: bigint
} {
  if (transaction.type === 0 || transaction.type === 1)
    return { maxFee: transaction.gasPrice, maxTip: transaction.gasPrice }
  return { maxFee: transaction.maxFeePerGas, maxTip: transaction.maxPriorityFeePerGas }
}

export const accessListOf = (transaction: SignedTransaction): AccessList =>
  transaction.type === 0 ? [] : transaction.accessList

export const authorizationsOf = (transaction: SignedTransaction): readonly Authorization[] =>
  transaction.type === 4 ? transaction.authorizationList : []

export const GAS_PER_BLOB = 131_072n

export const blobGasOf = (transaction: SignedTransaction): bigint =>
  transaction.type === 3 ? BigInt(transaction.blobVersionedHashes.length) * GAS_PER_BLOB : 0n

export const intrinsicInput = (transaction: SignedTransaction) => ({
  isCreation: transaction.to === undefined,
  input: transaction.input,
  accessList: accessListOf(transaction),
  authorizations: authorizationsOf(transaction).length,
})

/** True if the rules allow the transaction's type. */
export const isTypeKnown = ({ type }: SignedTransaction, rules: Rules): boolean =>
  type <= rules.newestTransactionType && (type !== 3 || rules.blobs !== undefined)

/** Checks the lists of EIP-4844, EIP-7594 and EIP-7702. */
function checkLists(transaction: SignedTransaction, rules: Rules): InvalidTransaction | undefined {
  if (transaction.type === 3) {
    const { to, blobVersionedHashes } = transaction
    if (to === undefined) return invalid.blobCreation()
    if (blobVersionedHashes.length === 0) return invalid.noBlobHash()
    const { maxBlobsOfTransaction: max } = rules
    if (max !== undefined && blobVersionedHashes.length > max) return invalid.tooManyBlobs()
    const wrong = blobVersionedHashes.findIndex((hash) => hash[0] !== 1)
    if (wrong >= 0) return invalid.blobVersion(wrong, blobVersionedHashes[wrong]![0]!)
  }
  if (transaction.type === 4) {
    if (transaction.to === undefined) return invalid.delegatingCreation()
    if (transaction.authorizationList.length === 0) return invalid.noAuthorization()
  }
  return undefined
}
