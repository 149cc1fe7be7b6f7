/**
 * The post-exec transaction of a block (specs.optimism.io: Lagoon, Post-Execution Transactions and
 * Sequencer-Defined Metering). It runs nothing. Its refunds are settled with earlier transactions,
 * so a block is opened with it.
 */
import type { Rules } from '../../chainspec/types.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import type { Receipt } from '../../primitives/receipt.ts'
import {
  isSigned,
  type PostExecTransaction,
  type Transaction,
} from '../../primitives/transaction.ts'
import {
  decodeTransaction,
  makePostExec,
  TransactionError,
} from '../../primitives/transaction-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import { type InvalidTransaction, invalid } from './invalid.ts'
import type { Applied } from './settle.ts'
import type { BlockAttributes, ExecutedTransaction } from './types.ts'

/** Gas that the block refunds, by index of the transaction. */
export type Refunds = ReadonlyMap<number, bigint>

/**
 * Decodes the post-exec transaction of a block.
 * @param last envelope of the block's last transaction
 * @returns undefined for another type, and for a malformed transaction, which execution reports
 */
export function postExecIn(last: Bytes | undefined): PostExecTransaction | undefined {
  if (last?.[0] !== 0x7d) return undefined
  try {
    const transaction = decodeTransaction(last)
    return transaction.type === 0x7d ? transaction : undefined
  } catch (error) {
    if (error instanceof TransactionError) return undefined
    throw error
  }
}

export const refundsOf = ({ postExec }: Pick<BlockAttributes, 'postExec'>): Refunds =>
  new Map(postExec?.refunds.map(({ index, gasRefund }) => [Number(index), gasRefund]))

/** True if both give the first `count` transactions the same refunds. */
export const areSameRefunds = (a: Refunds, b: Refunds, count: number): boolean =>
  [...a.keys(), ...b.keys()].every((index) => index >= count || a.get(index) === b.get(index))

/**
 * Makes the post-exec transaction of a block that would end with these receipts.
 * @returns undefined if the receipts have no refund
 */
export function postExecOf(
  number: bigint,
  receipts: readonly Pick<Receipt, 'gasRefund'>[],
): PostExecTransaction | undefined {
  const refunds = receipts.flatMap(({ gasRefund = 0n }, at) =>
    gasRefund === 0n ? [] : [{ index: BigInt(at), gasRefund }],
  )
  return refunds.length === 0 ? undefined : makePostExec(number, refunds)
}

/** The refund in a receipt: 0 without a refund, undefined for receipts that never have one. */
export const refundInReceipt = (
  transaction: Transaction,
  rules: Rules,
  refund: bigint | undefined,
): bigint | undefined => (rules.hasPostExec && isSigned(transaction) ? (refund ?? 0n) : undefined)

/** Checks the position of any transaction relative to the post-exec transaction. */
export function postExecFault(
  transaction: Transaction,
  { number, postExec }: BlockAttributes,
  block: { readonly rules: Rules; readonly executed: readonly ExecutedTransaction[] },
): InvalidTransaction | undefined {
  const { rules, executed } = block
  if (executed.at(-1)?.transaction.type === 0x7d) return invalid.afterPostExec()
  if (transaction.type !== 0x7d) return undefined
  if (!rules.hasPostExec) return invalid.type()
  if (postExec === undefined || !equalBytes(postExec.hash, transaction.hash))
    return invalid.postExecNotLast()
  if (transaction.blockNumber !== number)
    return invalid.postExecNumber(transaction.blockNumber, number)
  const wrong = transaction.refunds.find(({ index }) => {
    const refunded = executed[Number(index)]?.transaction
    return refunded === undefined || !isSigned(refunded)
  })
  return wrong && invalid.refundTarget(wrong.index)
}

/** A post-exec transaction runs nothing, pays nothing and uses no gas. */
export const POST_EXEC_APPLIED: Applied = {
  status: 'executed',
  isSuccess: true,
  gasUsed: 0n,
  output: NO_BYTES,
  logs: [],
  created: undefined,
  effectiveGasPrice: 0n,
  depositNonce: undefined,
}
