import type { Bytes } from './bytes.ts'

export type Log = {
  readonly address: Bytes
  readonly topics: readonly Bytes[]
  readonly data: Bytes
}

/** Bloom and log count of a transaction. The bloom has no bytes when there is no log. */
export type LogSummary = { readonly bloom: Bytes; readonly count: number }

/**
 * L1 and operator fee fields of an OP receipt, named as in its JSON (op-geth:
 * core/types/receipt.go; op-alloy: L1BlockInfo).
 */
export type L1Fee = {
  readonly l1GasPrice: bigint
  readonly l1GasUsed: bigint
  readonly l1Fee: bigint
  readonly l1BaseFeeScalar?: bigint
  readonly l1BlobBaseFee?: bigint
  readonly l1BlobBaseFeeScalar?: bigint
  /** Before Ecotone only; a decimal string in JSON. */
  readonly l1FeeScalar?: string
  readonly operatorFeeScalar?: bigint
  readonly operatorFeeConstant?: bigint
  readonly daFootprintGasScalar?: bigint
  /** DA footprint of this transaction (Jovian). */
  readonly blobGasUsed?: bigint
}

export type Receipt = {
  readonly type: number
  readonly status: 0 | 1
  /** State root after the transaction, instead of the status before Byzantium. */
  readonly root?: Bytes
  readonly cumulativeGasUsed: bigint
  readonly gasUsed: bigint
  /** 256 bytes. */
  readonly logsBloom: Bytes
  readonly logs: readonly Log[]
  readonly contractAddress: Bytes | undefined
  readonly effectiveGasPrice: bigint
  readonly depositNonce?: bigint
  readonly depositReceiptVersion?: bigint
  readonly l1?: L1Fee
  /**
   * Gas that the block gave back, not part of `gasUsed`. Signed transactions have it from Lagoon
   * on, 0 for none.
   */
  readonly gasRefund?: bigint
  /** EIP-4844 transactions on an L1 chain. */
  readonly blobGasUsed?: bigint
  readonly blobGasPrice?: bigint
}
