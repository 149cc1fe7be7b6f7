/** Makes receipts from a run's outcome and the block's own values. */
import {
  daFootprint,
  type L1FeeParameters,
  type RollupData,
  receiptL1Fee,
  rollupData,
} from '../../chainspec/l1-fee.ts'
import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Receipt } from '../../primitives/receipt.ts'
import { bloomOf, encodeStoredReceipt } from '../../primitives/receipt-codec.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'
import { createAddress } from '../../primitives/transaction-codec.ts'
import type { RollupFees } from '../transaction/fees.ts'
import type { Applied } from '../transaction/settle.ts'
import type { ExecutedTransaction } from '../transaction/types.ts'
import { blobGasOf } from '../transaction/validation.ts'

/** The fields of a receipt that only a run can provide. */
export type RunOutcome = Pick<
  Applied,
  'isSuccess' | 'gasUsed' | 'logs' | 'effectiveGasPrice' | 'depositNonce'
>

export function makeReceipt(
  transaction: Transaction,
  { isSuccess, gasUsed, logs, effectiveGasPrice, depositNonce }: RunOutcome,
  about: {
    readonly rules: Rules
    readonly env: BlockEnv
    readonly cumulativeGasUsed: bigint
    readonly gasRefund: bigint | undefined
    readonly root: Bytes | undefined
    /** undefined on an L1 chain. */
    readonly parameters: L1FeeParameters | undefined
    /** Set if it is already computed. */
    readonly data: RollupData | undefined
  },
): Receipt {
  const { rules, env, cumulativeGasUsed, gasRefund, root, parameters } = about
  const { type } = transaction
  const isDeposit = type === 0x7e
  const nonce = isSigned(transaction) ? transaction.nonce : (depositNonce ?? 0n)
  const version = rules.depositReceiptVersion
  const data = about.data ?? (parameters && rollupData(transaction.raw))
  const hasL1Fee = parameters !== undefined && type !== 0x7d
  const l1 = hasL1Fee ? receiptL1Fee({ data: data!, isDeposit }, parameters, rules) : undefined
  return {
    type,
    status: isSuccess ? 1 : 0,
    ...(root === undefined ? {} : { root }),
    cumulativeGasUsed,
    gasUsed,
    logsBloom: bloomOf(logs),
    logs,
    contractAddress:
      transaction.to === undefined ? createAddress(transaction.from, nonce) : undefined,
    effectiveGasPrice,
    ...(isDeposit ? { depositNonce: nonce } : {}),
    ...(isDeposit && version !== undefined ? { depositReceiptVersion: version } : {}),
    ...(l1 === undefined ? {} : { l1 }),
    ...(gasRefund === undefined ? {} : { gasRefund }),
    ...(transaction.type === 3
      ? { blobGasUsed: blobGasOf(transaction), blobGasPrice: env.blobBaseFee }
      : {}),
    ...(type === 0x7d ? { blobGasUsed: 0n } : {}),
  }
}

/**
 * Makes the receipt and its bytes at their first read. Replays and discarded speculative executions
 * never need them.
 */
export function withReceipt(transaction: Transaction, make: () => Receipt): ExecutedTransaction {
  let made: Receipt | undefined
  let stored: Bytes | undefined
  return {
    transaction,
    get receipt() {
      made ??= make()
      return made
    },
    get storedReceipt() {
      stored ??= encodeStoredReceipt(this.receipt)
      return stored
    },
  }
}

/**
 * Computes a transaction's part of the block's blobGasUsed: its DA footprint, or on an L1 chain the
 * gas of its blobs.
 * @param rollup undefined for an unsigned transaction too
 */
export function dataGasOf(
  transaction: Transaction,
  rollup: RollupFees | undefined,
  rules: Rules,
): bigint {
  if (rollup !== undefined) return daFootprint(rollup.data, rollup.parameters, rules)
  return isSigned(transaction) ? blobGasOf(transaction) : 0n
}
