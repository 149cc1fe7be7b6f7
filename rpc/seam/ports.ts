/** What methods ask of the node around them: transactions and accounts, as they see them. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import type { RpcErrorObject } from './errors.ts'
import type { PoolClient } from './executor.ts'

/** A transaction was accepted, or why not. */
export type Submission = { readonly hash: Bytes } | { readonly error: RpcErrorObject }

/** The transactions that wait (txpool), as methods see them. */
export interface TransactionService {
  /** Validates against pending, journals, accepts. A refusal is a value. What workers find out about it, they do for `client`. */
  submit(raw: Bytes, client: PoolClient): Submission | Promise<Submission>
  get(hash: Bytes): SignedTransaction | undefined
  /** State nonce given, the next nonce after the consecutive ones that wait. */
  nextNonce(sender: Bytes, stateNonce: bigint): bigint
  /** Accepted here lately or waiting: whose receipt is worth holding for. */
  isExpected(hash: Bytes): boolean
  counts(): { readonly pending: number; readonly queued: number }
  /** Every transaction when it becomes pending (executable). */
  onPending(listener: (hash: Bytes, transaction: SignedTransaction) => void): () => void
}

/** Keys this node signs with (`dev`: its funded accounts; otherwise `--unlock`). */
export interface AccountService {
  addresses(): readonly Bytes[]
  sign(
    address: Bytes,
    digest: Bytes,
  ): { readonly r: bigint; readonly s: bigint; readonly yParity: 0 | 1 } | undefined
}

/** How far the node is with catching up; false: it is not. */
export type Syncing =
  | false
  | {
      readonly startingBlock: bigint
      readonly currentBlock: bigint
      readonly highestBlock: bigint
    }
