/** The ledger of promises: what flashblocks said of a block before it was canonical, and what became of it. */
import type { Bytes } from '../primitives/bytes.ts'

/**
 * What the canonical block of the promised height says of a transaction. `open`: there is none yet. `kept`: it has the transaction at the
 * promised place; `reordered`: elsewhere; `dropped`: not at all. `unseen`: this node never had that block, because its chain was begun anew
 * above it.
 */
export const FATES = ['open', 'kept', 'reordered', 'dropped', 'unseen'] as const
export type Fate = (typeof FATES)[number]

/**
 * What is known beside a fate. `secondPayload`: another payload of the height promised something too, or was shown after it, with or without
 * transactions; `equivocation`: a flashblock of the payload was told in two ways; `reorg`: the fate was another one before the canonical block of the height was replaced.
 */
export const CAUSES = ['secondPayload', 'equivocation', 'reorg'] as const
export type Cause = (typeof CAUSES)[number]

/** Transactions that became visible with one flashblock, without deposits: those come again whatever block it becomes. */
export type PromisedFlashblock = {
  readonly number: number
  /** 8 bytes. */
  readonly payloadId: Bytes
  readonly index: number
  /** PROMISED_BYTES of each: hash (32) ‖ sender (20) ‖ nonce (8) ‖ position in the block (4). */
  readonly transactions: Uint8Array<ArrayBuffer>
  /** Milliseconds since 1970. */
  readonly atMs: number
}

export const PROMISED_BYTES = 64

/** One transaction, promised by one flashblock. */
export type StoredPromise = {
  readonly number: number
  readonly payloadId: Bytes
  /** Of the flashblock. */
  readonly index: number
  /** In the block. */
  readonly position: number
  readonly hash: Bytes
  readonly sender: Bytes
  readonly nonce: bigint
  readonly atMs: number
  readonly fate: Fate
  /** undefined: the fate is open. */
  readonly decidedAtMs: number | undefined
  readonly causes: readonly Cause[]
}

/** A canonical block, as far as promises go. */
export type DecidingBlock = {
  readonly number: number
  readonly transactions: readonly { readonly hash: Bytes }[]
}

export type LedgerLimits = {
  /** Older promises go. */
  readonly keepMs: number
  /** Of its rows, about: the oldest go. */
  readonly bytes: number
}

/** A week; some 1.5 million promises, which 50 transactions a second reach in eight hours. */
export const LEDGER_LIMITS: LedgerLimits = { keepMs: 7 * 24 * 3_600_000, bytes: 256 * 2 ** 20 }

/** Reads of the ledger, in any thread. @throws {DatabaseError} from every call */
export interface LedgerReader {
  /** Of a transaction, by height: at most `MOST_PROMISES`, the newest. */
  promisesOf(hash: Bytes): readonly StoredPromise[]
  /** Of a height, by payload and flashblock. */
  promisesAt(number: number): readonly StoredPromise[]
  /** What was counted from `fromMs` on: by the minute for up to two hours back, else by the hour. */
  countsSince(fromMs: number, nowMs: number): Counted
}
export type Counted = {
  /** Where counting began: the start of a minute or an hour. */
  readonly fromMs: number
  readonly counts: LedgerCounts
}

/** Sums of what happened in some time. */
export type LedgerCounts = {
  /** Flashblocks that promised something, and transactions in them. */
  readonly flashblocks: number
  readonly promises: number
  /** By fate, of what was decided in the time. */
  readonly kept: number
  readonly reordered: number
  readonly dropped: number
  readonly unseen: number
  /** Heights whose promises have a second payload beside them; payloads with a flashblock told in two ways. */
  readonly secondPayloads: number
  readonly equivocations: number
  /** From when this node took a transaction to when a flashblock with it was shown. */
  readonly taken: Times
  /** From a promise to the canonical block that kept it. */
  readonly sealed: Times
}
/** A histogram of milliseconds. */
export type Times = {
  readonly count: number
  readonly sumMs: number
  /** How many are at most `TIME_BOUNDS_MS[n]`, and more than the bound before; the last: more than all. */
  readonly buckets: readonly number[]
}
