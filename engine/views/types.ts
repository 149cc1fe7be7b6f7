/** The shared views: what the writer publishes and what every other thread reads (ADR 3). */

import type { ExecutedTransaction } from '../execution/transaction/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import type { StateDiff } from '../state/diff.ts'
import type { BlockId } from '../storage/types.ts'
import type { Showing } from './showing.ts'

/** Plain data: crosses a thread. `buffer` is the arena; `threads` the rows of leases. A front's row stands before those of its workers. */
export type SharedViews = {
  readonly buffer: SharedArrayBuffer
  /** Of flat values that were read. */
  readonly cache: SharedArrayBuffer
  readonly threads: number
  readonly pageBytes: number
}

/** A block of the writer's, not yet folded; opaque outside views/. `number` and `id` never change. */
export interface BlockHandle {
  readonly id: BlockId
  readonly number: number
  readonly parent: BlockHandle | undefined
}

/** One flashblock's worth, all checks passed. A canonical block filled at once is one of these with index 0. */
export type Increment = {
  readonly index: number
  readonly diff: StateDiff
  /** Header of the prefix that ends with this flashblock, and its (momentary) hash. */
  readonly header: Header
  readonly hash: Bytes
  /** Those of this flashblock only. */
  readonly transactions: readonly ExecutedTransaction[]
}

/** The writer's side. Everything is private until `publish`. */
export interface Publisher {
  /** The newest folded block, as a parent. */
  readonly base: BlockHandle
  /** What clients are shown later; undefined: they are shown each record with its publish. */
  readonly showing: Showing | undefined
  /** A block below the base as the parent of a branch; it is in the store alone. */
  stored(block: { readonly number: number; readonly hash: Bytes }): BlockHandle
  /** A table of its own for a block, also for a second payload of the same height. `payloadId`: 0x + 16 hex digits, readable as ChainView.pending.payloadId. */
  begin(parent: BlockHandle, payloadId?: string): BlockHandle
  /** Reserves first: 'full' leaves everything as it was. */
  add(block: BlockHandle, increment: Increment): 'added' | 'full'
  /** The block is all there: its final header and hash. */
  finish(block: BlockHandle, header: Header, hash: Bytes): 'added' | 'full'
  /** The header of a finished block whose roots were not known when it was finished: its hash stays. */
  settle(block: BlockHandle, header: Header): 'added' | 'full'
  /** It will not be shown, or not again: nothing of it is kept for its own sake. Each block that was begun is shown or dropped. */
  drop(block: BlockHandle): void
  /** One new record; returns its number. Each head is an ancestor of the next or equal. pending: newest increment of its block. */
  publish(heads: {
    readonly canonical: BlockHandle
    readonly complete: BlockHandle
    readonly pending: BlockHandle
    readonly safe: number
    readonly finalized: number
  }): number
  /** Handed to the keeper: not recycled before `answered`. */
  handOver(block: BlockHandle): void
  answered(block: BlockHandle): void
  /** The keeper folded this block: later records have it as base. Takes effect with the next publish. */
  folded(block: BlockHandle): void
  /** The keeper unfolded down to this block: the base goes back, every older view is void. */
  unfolded(to: {
    readonly number: number
    readonly hash: Bytes
    readonly id: BlockId
    /** As the keeper counts: records carry this, not the word as it is by then. */
    readonly unfolds: number
  }): BlockHandle
  stats(): {
    readonly pages: number
    /** Those that can be had now. */
    readonly freePages: number
    /** Of no record that is written any more, but some thread still reads one of before. */
    readonly heldPages: number
    /** Of tables that later records may reach, or that writer or keeper still need. */
    readonly ownedPages: number
    readonly tables: number
    readonly records: number
    readonly oldestLease: number
  }
}
