import type { Bytes } from './bytes.ts'

export type AccessList = readonly {
  readonly address: Bytes
  readonly storageKeys: readonly Bytes[]
}[]
export type Authorization = {
  readonly chainId: bigint
  readonly address: Bytes
  readonly nonce: bigint
  readonly yParity: bigint
  readonly r: bigint
  readonly s: bigint
}
type Common = {
  /** The signed envelope (EIP-2718), as in a block's transaction list. */
  readonly raw: Bytes
  readonly hash: Bytes
  readonly from: Bytes
  /** undefined: creates a contract. */
  readonly to: Bytes | undefined
  readonly value: bigint
  readonly gasLimit: bigint
  readonly input: Bytes
}
type Signed = Common & {
  readonly nonce: bigint
  /** 27/28 or with the chain id for type 0 (EIP-155), the parity 0/1 otherwise. */
  readonly v: bigint
  readonly r: bigint
  readonly s: bigint
}
type DynamicFee = { readonly maxFeePerGas: bigint; readonly maxPriorityFeePerGas: bigint }

export type LegacyTransaction = Signed & {
  readonly type: 0
  readonly gasPrice: bigint
  /** undefined: signed without replay protection. */
  readonly chainId: bigint | undefined
}
export type AccessListTransaction = Signed & {
  readonly type: 1
  readonly gasPrice: bigint
  readonly chainId: bigint
  readonly accessList: AccessList
}
export type DynamicFeeTransaction = Signed &
  DynamicFee & { readonly type: 2; readonly chainId: bigint; readonly accessList: AccessList }
export type BlobTransaction = Signed &
  DynamicFee & {
    readonly type: 3
    readonly chainId: bigint
    readonly accessList: AccessList
    readonly maxFeePerBlobGas: bigint
    readonly blobVersionedHashes: readonly Bytes[]
  }
export type SetCodeTransaction = Signed &
  DynamicFee & {
    readonly type: 4
    readonly chainId: bigint
    readonly accessList: AccessList
    readonly authorizationList: readonly Authorization[]
  }
/** OP deposit, unsigned. */
export type DepositTransaction = Common & {
  readonly type: 0x7e
  readonly sourceHash: Bytes
  readonly mint: bigint
  readonly isSystemTransaction: boolean
}
/**
 * One entry of a post-exec transaction: a transaction of the same block is charged less gas than it
 * used.
 */
export type GasRefund = { readonly index: bigint; readonly gasRefund: bigint }
/**
 * Gas refunds that the sequencer grants in the last transaction of a block (specs.optimism.io:
 * Lagoon, Post-Execution Transactions).
 * The transaction is unsigned and has no gas; `from` and `to` are zero.
 */
export type PostExecTransaction = Common & {
  readonly type: 0x7d
  readonly version: bigint
  readonly blockNumber: bigint
  readonly refunds: readonly GasRefund[]
}
export type SignedTransaction =
  | LegacyTransaction
  | AccessListTransaction
  | DynamicFeeTransaction
  | BlobTransaction
  | SetCodeTransaction
/** A transaction for another thread. `from` is set when the sender was recovered here. */
export type SignedEnvelope = { readonly raw: Bytes; readonly from?: Bytes }

export type Transaction = SignedTransaction | DepositTransaction | PostExecTransaction

/** Returns whether the transaction is signed, so that it has a nonce and pays fees. */
export const isSigned = (transaction: Transaction): transaction is SignedTransaction =>
  transaction.type < 0x7d
