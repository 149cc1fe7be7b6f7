/** What the txpool holds and what it is asked. */
import type { RollupData } from '../chainspec/l1-fee.ts'
import type { Rules } from '../chainspec/types.ts'
import type { IntrinsicCounts } from '../execution/transaction/intrinsic-gas.ts'
import type { InvalidTransaction } from '../execution/transaction/types.ts'
import type { BlobSidecar } from '../primitives/blob-sidecar.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { SignedTransaction } from '../primitives/transaction.ts'
import type { AccountState } from '../state/diff.ts'
import type { TxpoolLimits } from './limits.ts'

/** A flashblock: those of a whole block have index Infinity. */
export type Position = { readonly number: number; readonly index: number }

export const isReached = (target: Position, pending: Position) =>
  pending.number > target.number ||
  (pending.number === target.number && pending.index >= target.index)

/** The pending head as validation sees it. Reads may throw a ViewError: take a newer head. */
export type TxpoolHead = {
  readonly rules: Rules
  readonly gasLimit: bigint
  readonly baseFee: bigint
  account(address: Bytes): AccountState | undefined
  /** What an OP chain adds at this head: L1 data fee and operator fee, in wei, and the DA footprint, in gas. */
  rollup(
    transaction: SignedTransaction,
    digest?: Digest,
  ): { readonly fee: bigint; readonly daFootprint: bigint }
  /** Gas that a transaction needs before its first step, and the floor its calldata sets. */
  leastGas(
    transaction: SignedTransaction,
    digest?: Digest,
  ): { readonly intrinsic: bigint; readonly floor: bigint }
  /** Whether code stands at an address. */
  hasCode(address: Bytes): boolean
  /** Whether that code is no delegation (EIP-7702): such an account sends nothing (EIP-3607). */
  isContract(address: Bytes): boolean
}

/** Hands the newest head to `use`, for as long as that runs; nothing is read before. */
export type ReadHead = <T>(use: (head: TxpoolHead) => T) => T

export type Submitted = { readonly hash: Bytes } | { readonly error: InvalidTransaction }
/** Nothing is wrong with the transaction but what its proofs, which take long to check, may say. */
export type Unproven = { readonly unproven: BlobSidecar }
/** A call that offers no fee, with which nothing else is wrong: the chain's contract may let it pass. */
export type Unlisted = { readonly unlisted: SignedTransaction }
/** An envelope so long that only its digest is taken. */
export type Undigested = { readonly undigested: Bytes }
/** What there is to know of an envelope beside its fields: all that every one of its bytes is read for. */
export type Digest = {
  readonly hash: Bytes
  readonly from: Bytes
  readonly rollup: RollupData
  readonly intrinsic: IntrinsicCounts
}
/** What was found out about a submitted transaction before. */
export type Known = {
  readonly digest?: Digest
  readonly isProven?: boolean
  readonly isListed?: boolean
  /** The sequencer has it: a flashblock with it may have been quicker than its answer. */
  readonly isTaken?: boolean
}

export type Entry = {
  readonly transaction: SignedTransaction
  /** Hash, as a map key. */
  readonly key: string
  readonly sender: string
  readonly feeCap: bigint
  readonly tipCap: bigint
  /** Most it can cost its sender: gas at the fee cap, value, L1 and operator fee. */
  readonly cost: bigint
  /** Pays nothing because a contract may allow it: only execution can tell. */
  readonly isGasless: boolean
  /** Order of acceptance. */
  readonly arrival: number
  readonly addedAtMs: number
  place: Place
  isAnnounced: boolean
  /** It never waited here: a flashblock brought it. */
  isUntold: boolean
  /** The sequencer was not through with it in its time: that it has it again does not mean that it will be included. */
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
    place: { status: 'waiting' },
    isAnnounced: false,
    isUntold: false,
    isStopped: false,
  }
}
export type Place =
  | { readonly status: 'waiting' }
  /** Given to the sequencer for this flashblock. */
  | { readonly status: 'handed'; readonly target: Position; readonly atMs: number }
  | { readonly status: 'included'; readonly blockNumber: number }

export type Wanted = {
  /** Sum of gas limits. */
  readonly gas: bigint
  /** Gas that the whole block has left: a transaction above `gas` may be reserved within it. */
  readonly blockGas: bigint
  readonly count: number
  readonly baseFee: bigint
  /** The flashblock they are for. */
  readonly target: Position
  /** Hashes (keys of `keyOf`) of those that the asker could not finish and does not want now: they may be replaced from then on. */
  readonly excluded: ReadonlySet<string>
  /** False: gasless ones are left out, and wait. */
  readonly isGaslessWanted: boolean
  /** In the newest pending state. */
  readonly nonceOf: NonceOf
}
/** @param known what the txpool takes it for: the answer where the state has to be fetched first, for no block that is here has changed it */
export type NonceOf = (address: Bytes, known: bigint) => bigint

export type Offered = {
  /** Best first. */
  readonly transactions: readonly SignedTransaction[]
  /** Others pay enough, and did not fit the gas or the count. */
  readonly hasMore: boolean
  /** The best-paying one that waits for a later flashblock of this block, because its gas limit is above `gas`. */
  readonly reserved: SignedTransaction | undefined
}

export type RejectedTransaction = {
  readonly hash: Bytes
  readonly reason: string
  readonly isFinal?: boolean
  readonly isUnwanted?: boolean
}
export type PendingListener = (hash: Bytes, transaction: SignedTransaction) => void

/** Where accepted transactions survive a restart. Both calls are durable against the end of the process when they return. */
export interface TxpoolJournal {
  append(raw: Bytes): void
  /** Replaces the whole content. */
  rewrite(all: Iterable<Bytes>): void
}

/** Is told of all that `nextNonce` and `isExpected` are answered from, as it changes within a call. The same may be said twice. */
export type Watcher = {
  /** Whether it is expected. */
  kept(entry: Entry, is: boolean): void
  /** Whether it counts for its sender's nonce as one in no block; as one in a block. */
  open(entry: Entry, is: boolean): void
  included(entry: Entry, is: boolean): void
}

export type TxpoolOptions = {
  readonly limits?: Partial<TxpoolLimits>
  readonly journal: TxpoolJournal
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly watcher?: Watcher
  /** A transaction has left without a block; `standingOf` says why. */
  readonly onDeparted?: (hash: Bytes) => void
  /** `best` may give something that it did not give before. */
  readonly onNews?: () => void
}

/** A map key of a hash or an address: one character per byte. */
export const keyOf = (bytes: Bytes): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')

/** Wei per gas a block producer gets at this base fee; negative: not enough for the base fee. */
export function effectiveTip(entry: Entry, baseFee: bigint): bigint {
  if (entry.isGasless) return 0n
  const room = entry.feeCap - baseFee
  return room < entry.tipCap ? room : entry.tipCap
}

/** Where the chain stands after a publish. */
export type SettledHeads = {
  readonly pending: Position
  /** Number of the canonical head. */
  readonly canonical: number
  readonly nonceOf: NonceOf
}
