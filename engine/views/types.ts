/** The shared views: the writer publishes them and every other thread reads them (ADR 3). */
import type { ExecutedTransaction } from '../execution/transaction/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import type { StateDiff } from '../state/diff.ts'
import type { BlockId } from '../storage/types.ts'
import type { Visibility } from './visibility.ts'

/**
 * Plain data that crosses threads: `buffer` is the arena, `threads` the number of lease rows. A
 * front's row comes before those of its workers.
 */
export type SharedViews = {
  readonly buffer: SharedArrayBuffer
  readonly cache: SharedArrayBuffer
  readonly threads: number
  readonly pageBytes: number
}

/**
 * A block of the writer that is not yet persisted; opaque outside views/. `number` and `id` never
 * change.
 */
export interface BlockHandle {
  readonly id: BlockId
  readonly number: number
  readonly parent: BlockHandle | undefined
}

/**
 * A flashblock's content after all checks. A canonical block without flashblocks is one increment
 * with index 0.
 */
export type Increment = {
  readonly index: number
  readonly diff: StateDiff
  /** Header of the prefix that ends with this flashblock, and its partial hash. */
  readonly header: Header
  readonly hash: Bytes
  /** Transactions of this flashblock only. */
  readonly transactions: readonly ExecutedTransaction[]
}

/** The writer's side. Nothing is readable before `publish`. */
export interface Publisher {
  /** The newest persisted block, as a parent. */
  readonly base: BlockHandle
  /** Delays visibility for clients; undefined: each snapshot is visible at once. */
  readonly visibility: Visibility | undefined
  /**
   * Returns a handle for a block below the base, which only the store has, as the parent of a
   * branch.
   */
  stored(block: { readonly number: number; readonly hash: Bytes }): BlockHandle
  /**
   * Starts a block with a diff layer of its own, also for a second payload of the same height.
   * `payloadId` is 0x and 16 hex digits; views return it as `ChainView.pending.payloadId`.
   */
  start(parent: BlockHandle, payloadId?: string): BlockHandle
  /** Adds an increment. Pages are reserved first, so 'full' changes nothing. */
  add(block: BlockHandle, increment: Increment): 'added' | 'full'
  finish(block: BlockHandle, header: Header, hash: Bytes): 'added' | 'full'
  /** Replaces the header of a finished block whose roots were unknown then. The hash stays. */
  settle(block: BlockHandle, header: Header): 'added' | 'full'
  /** Drops a block that will not be published again. Each started block is published or dropped. */
  drop(block: BlockHandle): void
  /**
   * Publishes a new snapshot and returns its number. Each head is an ancestor of the next or equal;
   * `pending` ends with its newest increment.
   */
  publish(heads: {
    readonly canonical: BlockHandle
    readonly complete: BlockHandle
    readonly pending: BlockHandle
    readonly safe: number
    readonly finalized: number
  }): number
  /** Marks a block as submitted to the persistence thread. Its pages stay until `onResponse`. */
  submitForPersistence(block: BlockHandle): void
  onResponse(block: BlockHandle): void
  /** The persistence thread has persisted this block. The next publish has it as base. */
  persisted(block: BlockHandle): void
  /**
   * The persistence thread has unwound the chain down to this block. The base moves back and every
   * older view is void.
   */
  unwound(to: {
    readonly number: number
    readonly hash: Bytes
    readonly id: BlockId
    /** Count of the persistence thread at this unwind. The shared word may be higher by now. */
    readonly unwinds: number
  }): BlockHandle
  stats(): {
    readonly pages: number
    readonly freePages: number
    /** Pages that no new snapshot reaches, but that a thread may still read through an old one. */
    readonly pinnedPages: number
    /** Pages of diff layers that later snapshots may reach, or that writer or persistence needs. */
    readonly ownedPages: number
    readonly diffLayers: number
    readonly snapshots: number
    readonly oldestLease: number
  }
}

/**
 * Index of what completes a block without a flashblock: the rest that came with the canonical
 * block, or a block that had no flashblocks.
 * The index is above all indexes of a feed, because other nodes may have flashblocks with those. It
 * has 9 digits, the maximum in a FlashblockId.
 */
export const FULL_BLOCK_INDEX = 999_999_999
