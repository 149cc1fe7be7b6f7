/**
 * Types of block execution, from transactions to receipts and the state's change. One type is the
 * stored form of an executed transaction's receipt.
 */

import type { ChainSpec, Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Engine, Limits, Stopped } from '../../evm/engine.ts'
import type { BlockTail } from '../../primitives/block-codec.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import type { Receipt } from '../../primitives/receipt.ts'
import { encodeStoredReceipt } from '../../primitives/receipt-codec.ts'
import type { PostExecTransaction, Transaction } from '../../primitives/transaction.ts'
import type { StateDiff } from '../../state/diff.ts'
import type { StateReader } from '../../state/reader.ts'
import type { Observer } from '../../tracers/types.ts'
import type { InvalidTransaction } from './invalid.ts'

/** The receipt may be made at its first read. */
export type ExecutedTransaction = {
  readonly transaction: Transaction
  readonly receipt: Receipt
  /** Cached result of encodeStoredReceipt. */
  readonly storedReceipt?: Bytes
}

/** The constant fields of a block, from a flashblock payload's `base` or a header. */
export type BlockAttributes = {
  readonly parentHash: Bytes
  readonly parentBeaconBlockRoot: Bytes | undefined
  readonly coinbase: Bytes
  readonly prevRandao: Bytes
  readonly number: bigint
  readonly gasLimit: bigint
  readonly timestamp: bigint
  readonly extraData: Bytes
  readonly baseFee: bigint
  /**
   * True if the block starts a fork, in which a signed transaction is invalid (chainspec/rules.ts).
   * undefined if the block was checked before.
   */
  readonly isDepositsOnly?: boolean
  /**
   * The block's last transaction, which defines refunds of earlier ones (post-exec.ts). undefined
   * if there is none, or none is known yet.
   */
  readonly postExec?: PostExecTransaction | undefined
  /** L1 chains only: difficulty before the merge, excess blob gas since Cancun. */
  readonly difficulty?: bigint
  readonly excessBlobGas?: bigint
}

/** Sums over the transactions so far, which a flashblock's `diff` reports. */
export type BlockSums = {
  readonly gasUsed: bigint
  /** DA footprint since Jovian, 0 before; on an L1 chain the gas of blobs. */
  readonly blobGasUsed: bigint
  readonly logsBloom: Bytes
  readonly receiptsRoot: Bytes
  readonly transactionsRoot: Bytes
}

/**
 * Execution of a block by the sequencer, the writer, an import or a trace. A session has one at a
 * time. Call `start` first, then `execute` for each transaction.
 */
export interface BlockExecution {
  readonly attributes: BlockAttributes
  readonly env: BlockEnv
  readonly rules: Rules
  /**
   * Runs the system calls (EIP-2935, EIP-4788), once, before the first transaction.
   * @throws {ViewError} {MissingError}
   */
  start(): Promise<void>
  /**
   * Executes a transaction. An invalid or stopped transaction and a failed read leave the block
   * unchanged. A fallback hides a failing engine from all but a tracer.
   * @throws {ViewError} {MissingError}
   */
  execute(
    transaction: Transaction,
    limits?: Limits,
    tracer?: Observer,
  ): Promise<
    | { readonly status: 'executed'; readonly executed: ExecutedTransaction }
    | { readonly status: 'invalid'; readonly reason: InvalidTransaction }
    | Stopped
  >
  /**
   * Assumes that the block ends with this transaction, whose refunds apply to later executions.
   * @returns false, with nothing changed, if an executed transaction's refund would change
   */
  refund(postExec: PostExecTransaction | undefined): boolean
  /**
   * Ends an Ethereum block after its last transaction.
   * @returns the header's requestsHash
   * @throws {RequestsError} {ViewError} {MissingError}
   */
  finish(tail: BlockTail): Promise<Bytes | undefined>
  readonly executed: readonly ExecutedTransaction[]
  readonly gasUsed: bigint
  readonly logCount: number
  sums(): BlockSums
  /** Returns the journal position and the block's counts; `revert` restores both. */
  checkpoint(): BlockCheckpoint
  revert(to: BlockCheckpoint): void
  /**
   * Returns the changes since the checkpoint; without one, since the block's opening, including
   * system calls. Asynchronous, because a failing engine may have to be replaced.
   * @throws {ViewError} {MissingError}
   */
  diff(since?: BlockCheckpoint): Promise<StateDiff>
  /**
   * Closes the session, once; no state can be read or changed afterwards. Executed transactions and
   * sums stay valid.
   */
  close(): void
}
export type BlockCheckpoint = {
  readonly journal: number
  readonly transactions: number
  readonly gasUsed: bigint
  readonly blobGasUsed: bigint
  readonly logCount: number
}

/** @param reader the state after the parent block */
export type OpenBlock = (options: {
  readonly engine: Engine
  readonly chain: Pick<ChainSpec, 'rulesAt'>
  readonly reader: StateReader
  readonly attributes: BlockAttributes
  /**
   * State root after the parent and these changes. Used before Byzantium, when each receipt had a
   * root.
   */
  readonly rootAfter?: (diff: StateDiff) => Bytes
}) => BlockExecution

/** Builds the header of a block, or of a block up to a flashblock. */
export type BuildHeader = (options: {
  readonly rules: Rules
  readonly attributes: BlockAttributes
  readonly sums: BlockSums
  /** Zero for a flashblock above index 0. */
  readonly stateRoot: Bytes
  /** Storage root of the L2ToL1MessagePasser (Isthmus and later). */
  readonly withdrawalsRoot: Bytes | undefined
  /**
   * Fields of an Ethereum block that differ from those of a block without ommers, withdrawals and
   * requests.
   */
  readonly tail?: Partial<Pick<Header, 'ommersHash' | 'withdrawalsRoot' | 'requestsHash' | 'nonce'>>
}) => Header

/** Returns the bytes that the transaction caches, or encodes them. */
export const storedReceiptOf = (executed: ExecutedTransaction): Bytes =>
  executed.storedReceipt ?? encodeStoredReceipt(executed.receipt)
