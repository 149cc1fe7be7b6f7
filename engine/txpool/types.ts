/** Types of the txpool: its entries, requests and responses. */
import type { RollupData } from '../chainspec/l1-fee.ts'
import type { Rules } from '../chainspec/types.ts'
import type { IntrinsicCounts } from '../execution/transaction/intrinsic-gas.ts'
import type { InvalidTransaction } from '../execution/transaction/invalid.ts'
import type { BlobSidecar } from '../primitives/blob-sidecar.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { SignedTransaction } from '../primitives/transaction.ts'
import type { AccountState } from '../state/diff.ts'
import type { TxpoolLimits } from './limits.ts'

/** Position of a flashblock. A full block has index Infinity. */
export type Position = { readonly number: number; readonly index: number }

export const isReached = (target: Position, pending: Position) =>
  pending.number > target.number ||
  (pending.number === target.number && pending.index >= target.index)

/**
 * The pending head for validation. Reads may throw a ViewError; the caller then takes a newer head.
 */
export type TxpoolHead = {
  readonly rules: Rules
  readonly gasLimit: bigint
  readonly baseFee: bigint
  account(address: Bytes): AccountState | undefined
  /**
   * Returns the additional costs of an OP chain: L1 data fee and operator fee in wei, DA footprint
   * in gas.
   */
  rollup(
    transaction: SignedTransaction,
    digest?: Digest,
  ): { readonly fee: bigint; readonly daFootprint: bigint }
  /**
   * Returns the gas that a transaction needs before its first step, and the floor that its calldata
   * sets.
   */
  minGas(
    transaction: SignedTransaction,
    digest?: Digest,
  ): { readonly intrinsic: bigint; readonly floor: bigint }
  hasCode(address: Bytes): boolean
  /**
   * Returns whether an address has code other than a delegation (EIP-7702). Such an account cannot
   * send (EIP-3607).
   */
  isContract(address: Bytes): boolean
}

/** Passes the newest head to `use` for the duration of the call. The head is read only then. */
export type ReadHead = <T>(use: (head: TxpoolHead) => T) => T

export type Submitted = { readonly hash: Bytes } | { readonly error: InvalidTransaction }
/** The transaction passed all checks except for its proofs, whose check takes long. */
export type Unproven = { readonly unproven: BlobSidecar }
/** The transaction offers no fee and passed all other checks. The chain's contract may allow it. */
export type Unlisted = { readonly unlisted: SignedTransaction }
/** The envelope is so long that the txpool needs its digest. */
export type Undigested = { readonly undigested: Bytes }
/** Results of reading every byte of an envelope. */
export type Digest = {
  readonly hash: Bytes
  readonly from: Bytes
  readonly rollup: RollupData
  readonly intrinsic: IntrinsicCounts
}
/** Facts that were found out before the submission. */
export type Known = {
  readonly digest?: Digest
  readonly isProven?: boolean
  readonly isListed?: boolean
  /**
   * The sequencer has the transaction. A flashblock with it may arrive before the sequencer's
   * response.
   */
  readonly isTaken?: boolean
}

export type Entry = {
  readonly transaction: SignedTransaction
  /** Hash as a map key. */
  readonly key: string
  readonly sender: string
  readonly feeCap: bigint
  readonly tipCap: bigint
  /** Maximum cost for the sender: gas at the fee cap, value, L1 fee and operator fee. */
  readonly cost: bigint
  /** The transaction pays nothing because a contract may allow it. Only execution can decide. */
  readonly isGasless: boolean
  readonly arrival: number
  readonly addedAtMs: number
  state: EntryState
  isAnnounced: boolean
  /** The transaction never waited here, because a flashblock brought it. */
  awaitsLateAnnouncement: boolean
  /**
   * The sequencer ran out of time with the transaction. Another selection does not mean that it
   * will be included.
   */
  isStopped: boolean
}
export function newEntry(
  transaction: SignedTransaction,
  about: Pick<Entry, 'cost' | 'isGasless' | 'arrival' | 'addedAtMs'>,
): Entry {
  const isDynamic = 'maxFeePerGas' in transaction
  return {
    ...about,
    transaction,
    key: keyOf(transaction.hash),
    sender: keyOf(transaction.from),
    feeCap: isDynamic ? transaction.maxFeePerGas : transaction.gasPrice,
    tipCap: isDynamic ? transaction.maxPriorityFeePerGas : transaction.gasPrice,
    state: { status: 'waiting' },
    isAnnounced: false,
    awaitsLateAnnouncement: false,
    isStopped: false,
  }
}
export type EntryState =
  | { readonly status: 'waiting' }
  /** Selected for this flashblock. */
  | { readonly status: 'selected'; readonly target: Position; readonly atMs: number }
  | { readonly status: 'included'; readonly blockNumber: number }

export type Wanted = {
  /** Maximum sum of gas limits. */
  readonly gas: bigint
  /** Gas that is left in the whole block. A transaction above `gas` may be reserved within it. */
  readonly blockGas: bigint
  readonly count: number
  readonly baseFee: bigint
  /** The flashblock that the transactions are for. */
  readonly target: Position
  /**
   * Hashes (keys of `keyOf`) of transactions that the sequencer could not finish and skips now.
   * They may be replaced.
   */
  readonly excluded: ReadonlySet<string>
  /** False leaves gasless transactions waiting. */
  readonly isGaslessWanted: boolean
  readonly nonceOf: NonceOf
}
/**
 * @param known nonce that the txpool assumes; returned when the state has to be fetched first,
 * because no local block has changed it
 */
export type NonceOf = (address: Bytes, known: bigint) => bigint

export type Offered = {
  /** Best first. */
  readonly transactions: readonly SignedTransaction[]
  /** Whether further transactions pay enough but do not fit the gas or the count. */
  readonly hasMore: boolean
  /**
   * The best-paying transaction that waits for a later flashblock of this block, because its gas
   * limit is above `gas`.
   */
  readonly reserved: SignedTransaction | undefined
}

export type RejectedTransaction = {
  readonly hash: Bytes
  readonly reason: string
  readonly isFinal?: boolean
  readonly isUnwanted?: boolean
}
export type PendingListener = (hash: Bytes, transaction: SignedTransaction) => void

/**
 * Journal in which accepted transactions survive a restart. Both calls return after their data
 * survives the end of the process.
 */
export interface TxpoolJournal {
  append(raw: Bytes): void
  /** Replaces the whole content. */
  rewrite(all: Iterable<Bytes>): void
}

/**
 * Receives every change on which `nextNonce` and `isExpected` depend, within the call. A change may
 * be repeated.
 */
export type Watcher = {
  /** Sets whether the transaction is expected. */
  retained(entry: Entry, is: boolean): void
  /** Set whether the entry counts for its sender's nonce: outside of blocks, or in a block. */
  open(entry: Entry, is: boolean): void
  included(entry: Entry, is: boolean): void
}

export type TxpoolOptions = {
  readonly limits?: Partial<TxpoolLimits>
  readonly journal: TxpoolJournal
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly watcher?: Watcher
  /** Called when a transaction has left without a block; `standingOf` has the reason. */
  readonly onDeparted?: (hash: Bytes) => void
  /** Called when `best` may return a transaction that it did not return before. */
  readonly onNews?: () => void
}

/** Returns a map key for a hash or an address: one character per byte. */
export const keyOf = (bytes: Bytes): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')

/**
 * Returns the wei per gas for the block producer at this base fee; negative: below the base fee.
 */
export function effectiveTip(entry: Entry, baseFee: bigint): bigint {
  if (entry.isGasless) return 0n
  const maxTip = entry.feeCap - baseFee
  return maxTip < entry.tipCap ? maxTip : entry.tipCap
}

export type SettledHeads = {
  readonly pending: Position
  readonly canonical: number
  readonly nonceOf: NonceOf
}
