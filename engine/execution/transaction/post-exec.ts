/**
 * The post-exec transaction of a block (specs.optimism.io: Lagoon, Post-Execution Transactions and Sequencer-Defined Metering): it runs
 * nothing, and its refunds are settled with the transactions that they concern. So a block is opened with it.
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
import { invalid } from './invalid.ts'
import type { Applied } from './settle.ts'
import type { BlockAttributes, ExecutedTransaction, InvalidTransaction } from './types.ts'

/** Gas that the block gives back, by the index of the transaction. */
export type Refunds = ReadonlyMap<number, bigint>

/** @param last envelope of the last transaction of a block; undefined: it is none of this type, or malformed, which executing says */
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

/** Whether the first `count` transactions have the same refunds by both. */
export const areSameRefunds = (a: Refunds, b: Refunds, count: number): boolean =>
  [...a.keys(), ...b.keys()].every((index) => index >= count || a.get(index) === b.get(index))

/**
 * The post-exec transaction that a block would have if it ended with these receipts; undefined:
 * they show no refund.
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

/** The refund that a receipt shows: 0 where the transaction has none, undefined where no receipt of its kind has one. */
export const refundInReceipt = (
  transaction: Transaction,
  rules: Rules,
  refund: bigint | undefined,
): bigint | undefined => (rules.hasPostExec && isSigned(transaction) ? (refund ?? 0n) : undefined)

/** Why a transaction of any type cannot stand here in its block. */
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

/** Nothing runs, nobody pays, no gas is used. */
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
