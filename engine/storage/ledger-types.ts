/**
 * Ledger of promises: transactions that flashblocks announced for a block, and their outcomes in
 * the canonical block.
 */
import type { Bytes } from '../primitives/bytes.ts'

/**
 * Outcome of a promised transaction in the canonical block of its height. `open`: there is no such
 * block yet. `kept`: the transaction is at the promised index. `reordered`: it is at another index.
 * `dropped`: it is absent. `unseen`: this node never had the block, because its chain was restarted
 * above it.
 */
export const PROMISE_OUTCOMES = ['open', 'kept', 'reordered', 'dropped', 'unseen'] as const
export type PromiseOutcome = (typeof PROMISE_OUTCOMES)[number]

/**
 * Circumstances of an outcome. `secondPayload`: another payload of the height promised something
 * too, or became visible later. `equivocation`: a flashblock of the payload arrived in two
 * versions. `reorg`: the canonical block was replaced, and the outcome changed.
 */
export const CAUSES = ['secondPayload', 'equivocation', 'reorg'] as const
export type Cause = (typeof CAUSES)[number]

/**
 * Transactions that became visible with one flashblock. Deposits are left out, because every
 * payload of the block has them.
 */
export type PromisedFlashblock = {
  readonly number: number
  /** 8 bytes. */
  readonly payloadId: Bytes
  readonly index: number
  /** PROMISED_BYTES each: hash (32) ‖ sender (20) ‖ nonce (8) ‖ position in the block (4). */
  readonly transactions: Uint8Array<ArrayBuffer>
  /** Milliseconds since 1970. */
  readonly atMs: number
}

export const PROMISED_BYTES = 64

export type StoredPromise = {
  readonly number: number
  readonly payloadId: Bytes
  /** Index of the flashblock. */
  readonly index: number
  /** Index of the transaction in the block. */
  readonly position: number
  readonly hash: Bytes
  readonly sender: Bytes
  readonly nonce: bigint
  readonly atMs: number
  readonly outcome: PromiseOutcome
  /** Milliseconds since 1970; undefined while the outcome is open. */
  readonly decidedAtMs: number | undefined
  readonly causes: readonly Cause[]
}

/** Part of a canonical block that decides on promises. */
export type DecidingBlock = {
  readonly number: number
  readonly transactions: readonly { readonly hash: Bytes }[]
}

export type LedgerLimits = {
  /** Age at which promises are deleted. */
  readonly retentionMs: number
  /** Approximate size of the rows; beyond it the oldest are deleted. */
  readonly bytes: number
}

/**
 * One week, and 1.5 million promises or so, which 50 transactions a second reach in eight hours.
 */
export const LEDGER_LIMITS: LedgerLimits = { retentionMs: 7 * 24 * 3_600_000, bytes: 256 * 2 ** 20 }

/**
 * Reads of the ledger, for any thread.
 * @throws {DatabaseError} from every call
 */
export interface LedgerReader {
  /** Promises of a transaction by height, the newest `MAX_PROMISES` at most. */
  promisesOf(hash: Bytes): readonly StoredPromise[]
  /** Promises of a height, by payload and flashblock. */
  promisesAt(number: number): readonly StoredPromise[]
  /** Counts since `fromMs`: by the minute for up to two hours back, otherwise by the hour. */
  countsSince(fromMs: number, nowMs: number): Counted
}
export type Counted = {
  /** Start of the minute or hour where counting started. */
  readonly fromMs: number
  readonly counts: LedgerCounts
}

/** Sums of a period. */
export type LedgerCounts = {
  /** Flashblocks that promised something, and transactions in them. */
  readonly flashblocks: number
  readonly promises: number
  /** Promises that were decided in the period, by outcome. */
  readonly kept: number
  readonly reordered: number
  readonly dropped: number
  readonly unseen: number
  /** Heights with promises and a second payload, and payloads with a flashblock in two versions. */
  readonly secondPayloads: number
  readonly equivocations: number
  /** Time from when this node took a transaction until a flashblock with it was visible. */
  readonly taken: Times
  /** Time from a promise to the canonical block that kept it. */
  readonly sealed: Times
}
/** Histogram of milliseconds. */
export type Times = {
  readonly count: number
  readonly sumMs: number
  /**
   * `buckets[n]` counts times up to `TIME_BOUNDS_MS[n]` and above the bound before; the last counts
   * longer ones.
   */
  readonly buckets: readonly number[]
}
