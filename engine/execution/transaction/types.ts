/** Block execution: transactions in, receipts and the state's change out. */
import type { ChainSpec, Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Engine, Limits, Stopped } from '../../evm/engine.ts'
import type { BlockTail } from '../../primitives/block-codec.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import type { Receipt } from '../../primitives/receipt.ts'
import type { PostExecTransaction, Transaction } from '../../primitives/transaction.ts'
import type { StateDiff } from '../../state/diff.ts'
import type { StateReader } from '../../state/reader.ts'
import type { Observer } from '../../tracers/types.ts'

/** A receipt may be made when it is read for the first time. */
export type ExecutedTransaction = {
  readonly transaction: Transaction
  readonly receipt: Receipt
  /** encodeStoredReceipt of it, where it is kept. */
  readonly storedReceipt?: Bytes
}

/**
 * Why a transaction cannot be in a block, in geth's words: it is wrong in itself, or it is right and not taken. JSON-RPC has a code for each
 * (EIP-1474: invalid input, transaction rejected).
 */
export type InvalidTransaction = {
  readonly why: 'input' | 'rejected'
  readonly message: string
}

/** The constant part of a block: the `base` of a flashblock payload, or a header's. */
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
  /** The block starts a fork, and a signed transaction makes it invalid (chainspec/rules.ts); undefined: it was judged before. */
  readonly isDepositsOnly?: boolean
  /** The last transaction of the block, which says what others pay (post-exec.ts); undefined: it has none, or none is known yet. */
  readonly postExec?: PostExecTransaction | undefined
  /** L1 chains only: before the merge, and from Cancun on. */
  readonly difficulty?: bigint
  readonly excessBlobGas?: bigint
}

/** Sums over the transactions so far: what a flashblock's `diff` reports. */
export type BlockSums = {
  readonly gasUsed: bigint
  /** DA footprint (Jovian), 0 before; on an L1 chain the gas of blobs. */
  readonly blobGasUsed: bigint
  readonly logsBloom: Bytes
  readonly receiptsRoot: Bytes
  readonly transactionsRoot: Bytes
}

/**
 * A block being executed: used by the sequencer to build, by the writer to follow, by import and by tracing to replay. One at a time per
 * session. Order: begin, then execute for each transaction.
 */
export interface BlockExecution {
  readonly attributes: BlockAttributes
  readonly env: BlockEnv
  readonly rules: Rules
  /** System calls (EIP-2935, EIP-4788), once, before the first transaction. @throws {ViewError} {MissingError} */
  begin(): Promise<void>
  /**
   * An invalid transaction leaves the block as it was; 'stopped' (limits) and a read that throws do too. An engine that fails does not show,
   * but to a tracer. @throws {ViewError} {MissingError}
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
   * The block would end with this transaction now: those that follow get its refunds. False: it would change the refund of a transaction that is
   * executed already, and nothing is changed.
   */
  refund(postExec: PostExecTransaction | undefined): boolean
  /** After the last transaction, on an Ethereum chain; gives the header's requestsHash. @throws {RequestsError} {ViewError} {MissingError} */
  finish(tail: BlockTail): Promise<Bytes | undefined>
  readonly executed: readonly ExecutedTransaction[]
  readonly gasUsed: bigint
  readonly logCount: number
  sums(): BlockSums
  /** Journal position together with the counts of this block; revert goes back to it. */
  checkpoint(): BlockCheckpoint
  revert(to: BlockCheckpoint): void
  /**
   * Touched since the checkpoint; from the opening when it is left out (system calls included). A promise, for an engine that fails here does
   * not show either. @throws {ViewError} {MissingError}
   */
  diff(since?: BlockCheckpoint): Promise<StateDiff>
  /** Ends the session, once: nothing can be executed, undone or asked of the state then. What was executed, and its sums, stay. */
  close(): void
}
export type BlockCheckpoint = {
  readonly journal: number
  readonly transactions: number
  readonly gasUsed: bigint
  readonly blobGasUsed: bigint
  readonly logCount: number
}

/** `reader` is the state after the parent block. */
export type OpenBlock = (options: {
  readonly engine: Engine
  readonly chain: Pick<ChainSpec, 'rulesAt'>
  readonly reader: StateReader
  readonly attributes: BlockAttributes
  /** State root after the parent and these changes: asked before Byzantium, when receipts had the root after each transaction. */
  readonly rootAfter?: (diff: StateDiff) => Bytes
}) => BlockExecution

/** The header of a block (or of a flashblock's prefix) from what is known of it. */
export type BuildHeader = (options: {
  readonly rules: Rules
  readonly attributes: BlockAttributes
  readonly sums: BlockSums
  /** Zero for a flashblock above index 0. */
  readonly stateRoot: Bytes
  /** Storage root of the L2ToL1MessagePasser (Isthmus and later). */
  readonly withdrawalsRoot: Bytes | undefined
  /** On an Ethereum chain: what is not as in a block without ommers, withdrawals and requests. */
  readonly tail?: Partial<Pick<Header, 'ommersHash' | 'withdrawalsRoot' | 'requestsHash' | 'nonce'>>
}) => Header
