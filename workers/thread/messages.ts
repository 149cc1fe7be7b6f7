/** All messages between threads: plain data. */
import type { MessagePort } from 'node:worker_threads'

import type { UpstreamBlock } from '../../engine/chain/types.ts'
import type { ChainOption } from '../../engine/chainspec/registry.ts'
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedEnvelope } from '../../engine/primitives/transaction.ts'
import type { ControlRequest, ControlResponse } from '../../engine/sources/sequencer/controls.ts'
import type { Deposited, UserDeposit } from '../../engine/sources/sequencer/first-transactions.ts'
import type {
  FlashblockPosition,
  Offered,
  Rejected,
  SequencerCount,
} from '../../engine/sources/sequencer/types.ts'
import type { Changes } from '../../engine/sources/writer/changes.ts'
import type { WriterEffect } from '../../engine/sources/writer/types.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import type { LedgerStats } from '../../engine/storage/ledger/ledger.ts'
import type { PersistenceStats } from '../../engine/storage/persistence/options.ts'
import type { OpenedChain, StoredHead } from '../../engine/storage/types.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import type { ChainPosition } from '../../engine/views/visibility.ts'
import type { ReplayEnd, ReplayStatus } from '../record/lines.ts'
import type { ReplayLine } from '../record/lookahead.ts'
import type { ReplayPosition } from '../record/request-replayer.ts'
import type { ClockMemory } from './running-clock.ts'

/** Data that every thread needs to read the chain. */
export type SharedNode = {
  readonly database: SharedDatabase
  readonly views: SharedViews
  /** Row of this thread in the lease table. */
  readonly thread: number
  /** Option from which every thread builds the same chain. */
  readonly chain: ChainOption
  readonly engine: string
}
/** Shared data of the threads that take or run calls. */
export type SharedCalling = SharedNode & {
  /** Clock that measures the time of calls. */
  readonly clock: ClockMemory
}
/** Main → writer. */
export type ToWriter =
  /** Executable transactions that the pool has accepted, in order. */
  | { readonly type: 'expected'; readonly transactions: readonly SignedEnvelope[] }
  /**
   * The other engine gets a different result for a canonical block; no further block on it becomes
   * visible.
   */
  | { readonly type: 'distrust'; readonly reason: string }
  /** The writer's end of the port to a restarted feed thread. */
  | { readonly type: 'feed'; readonly port: MessagePort }
  /** A replica has this flashblock. */
  | { readonly type: 'heard'; readonly position: ChainPosition }
  /** Starts a replay, once there is a first snapshot. */
  | { readonly type: 'replay' }
  /** The client requests that the writer sent with `ask` have been answered. */
  | { readonly type: 'asked' }
  | { readonly type: 'stop' }

/** Writer → main, of a node that is recorded or replayed; handled where the thread is started. */
export type FromRecording =
  /** Full lines of a recording. */
  | { readonly type: 'recorded'; readonly lines: Uint8Array<ArrayBuffer> }
  /** Recorded client requests, to be repeated before the replay goes on. */
  | { readonly type: 'ask'; readonly lines: readonly ReplayLine[]; readonly at: ReplayPosition }
  /** Progress of a replay, and its end. */
  | { readonly type: 'replaying'; readonly status: ReplayStatus }
  | { readonly type: 'replayed'; readonly ended: ReplayEnd & { readonly isCut: boolean } }

/** Writer → main, as a hint only: the arena is authoritative. */
export type FromWriter =
  | { readonly type: 'ready'; readonly snapshot: number }
  | Exclude<
      WriterEffect,
      {
        readonly type:
          | 'persistence'
          | 'need'
          | 'refused'
          | 'check'
          | 'notBegun'
          | 'changes'
          | 'published'
      }
    >
  | Published
  | { readonly type: 'changes'; readonly changes: Changes }
  /** The writer has this flashblock; with a flashblock lag clients see it later. */
  | { readonly type: 'had'; readonly position: ChainPosition }
  | FromRecording
  | { readonly type: 'gauges'; readonly values: Readonly<Record<string, number>> }
  | Trapped
  /** Storage cannot be read: what is visible stays, and nothing newer becomes visible. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }

/** `isFollowed` means that a separate message with the changes comes next. */
export type Published = Extract<WriterEffect, { readonly type: 'published' }> & {
  readonly isFollowed: boolean
}

/** One engine failed, and the other engine did its work. */
export type Trapped = { readonly type: 'trapped'; readonly reason: string }

/** Main → persistence. */
export type ToPersistence =
  /** Milliseconds between acceptance and visibility of transactions of the txpool. */
  | { readonly type: 'taken'; readonly ms: readonly number[] }
  /** Sent after the writer has stopped. */
  | { readonly type: 'stop' }

/** Persistence → main. */
export type FromPersistence =
  /**
   * The database is consistent, and what a crash cut off is repaired. `dropped` counts appended
   * blocks with a wrong root.
   */
  | {
      readonly type: 'ready'
      readonly foldedNumber: number
      readonly durableNumber: number
      readonly dropped: number
    }
  /** Sent once a second. */
  | {
      readonly type: 'stats'
      readonly stats: PersistenceStats & { readonly logBytes: number }
      readonly ledger: LedgerStats
    }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }

/** Persistence → writer, before any response: the chain that the writer starts on. */
export type PersistenceOpened = { readonly type: 'opened'; readonly opened: OpenedChain }

/**
 * Sequencer → writer, over their own port, so that changes of the chain wait for no other thread.
 */
export type SequencerToWriter =
  /** A packet as sent at /feed; the journal has it already. */
  | { readonly type: 'packet'; readonly packet: Bytes }
  | { readonly type: 'sealed'; readonly block: UpstreamBlock }
  /** The canonical chain goes back to this block. */
  | { readonly type: 'rewind'; readonly to: StoredHead }
  | { readonly type: 'pin'; readonly number: number | undefined }

/**
 * Writer → sequencer, over the same port: there is a newer snapshot, perhaps with the next block's
 * parent.
 */
export type WriterToSequencer = { readonly type: 'published' }

/** Main → sequencer. */
export type ToSequencer =
  /** Sent once, when there is a first snapshot. */
  | { readonly type: 'start' }
  | ({ readonly type: 'transactions'; readonly request: number } & Offered)
  /**
   * The pool may have new transactions since its last answer; sent at most once between two
   * answers.
   */
  | { readonly type: 'news' }
  /** A deposit for the next block. */
  | { readonly type: 'deposit'; readonly deposit: UserDeposit }
  /** Control requests run in order, and each is answered once. */
  | ({ readonly type: 'control' } & ControlRequest)
  | { readonly type: 'stop' }

/** Sequencer → main. */
export type FromSequencer =
  /** The journal's contents are in the feed again, up to this flashblock. */
  | { readonly type: 'ready'; readonly newest: FlashblockPosition | undefined }
  /**
   * Requests the best transactions, at most `gas` by their limits and at most `count`; answered
   * once. `number` and `index` name the target flashblock. Transactions that are not in it once it
   * is published may be selected again.
   */
  | {
      readonly type: 'want'
      readonly request: number
      readonly number: number
      readonly index: number
      readonly gas: bigint
      readonly blockGas: bigint
      readonly count: number
      readonly baseFee: bigint
      readonly excluded: readonly Bytes[]
      readonly isGaslessWanted: boolean
    }
  /** Hashes of transactions that were neither executed nor refused. */
  | { readonly type: 'returned'; readonly transactions: readonly Bytes[] }
  /** A packet for the readers of /feed; the writer has it already. */
  | {
      readonly type: 'packet'
      readonly packet: Bytes
      readonly messageId: FeedMessageId | undefined
    }
  /** The previous packet was sent this many milliseconds after it was due. */
  | { readonly type: 'late'; readonly ms: number }
  /** Transactions that did not execute and leave the pool. */
  | {
      readonly type: 'rejected'
      readonly transactions: readonly Rejected[]
    }
  | { readonly type: 'deposited'; readonly deposited: Deposited }
  | { readonly type: 'controlled'; readonly response: ControlResponse }
  /** For metrics and the log; the sequencer goes on. */
  | { readonly type: 'count'; readonly what: SequencerCount; readonly message: string }
  | Trapped
  /** This thread sends no further block. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }
