/** Everything threads say to each other: plain data. */
import type { MessagePort } from 'node:worker_threads'

import type { SealedBlock } from '../../engine/chain/types.ts'
import type { ChainOption } from '../../engine/chainspec/registry.ts'
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedEnvelope } from '../../engine/primitives/transaction.ts'
import type { ControlAnswer, ControlRequest } from '../../engine/sources/sequencer/controls.ts'
import type {
  FlashblockPlace,
  Offered,
  Rejected,
  SequencerCount,
} from '../../engine/sources/sequencer/types.ts'
import type { Deposited, UserDeposit } from '../../engine/sources/sequencer/user-deposits.ts'
import type { Changes } from '../../engine/sources/writer/changes.ts'
import type { WriterEffect } from '../../engine/sources/writer/types.ts'
import type { SharedDatabase } from '../../engine/storage/database/types.ts'
import type { KeeperStats } from '../../engine/storage/keeper/stats.ts'
import type { LedgerStats } from '../../engine/storage/ledger/ledger.ts'
import type { OpenedChain, StoredHead } from '../../engine/storage/types.ts'
import type { ShowPlace } from '../../engine/views/showing.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import type { AskedLine } from '../record/ahead.ts'
import type { AskedAt } from '../record/asking.ts'
import type { ReplayEnd, ReplayStatus } from '../record/lines.ts'
import type { ClockMemory } from './running-clock.ts'

/** What every thread needs to see the chain. */
export type SharedNode = {
  readonly database: SharedDatabase
  readonly views: SharedViews
  /** Row of the lease table that is this thread's. */
  readonly thread: number
  /** Every thread makes the same chain from it. */
  readonly chain: ChainOption
  readonly engine: string
}
/** The same of those that take calls, or run them. */
export type SharedCalling = SharedNode & {
  /** What a call may take is counted by it. */
  readonly clock: ClockMemory
}
/** Main → writer. */
export type ToWriter =
  /** Transactions that the pool has accepted, executable, in order. */
  | { readonly type: 'expected'; readonly transactions: readonly SignedEnvelope[] }
  /** A canonical block is not what the other engine makes of it: nothing more is shown on it. */
  | { readonly type: 'distrust'; readonly reason: string }
  /** The writer's end of a feed whose thread is a new one. */
  | { readonly type: 'feed'; readonly port: MessagePort }
  /** A replica has this flashblock. */
  | { readonly type: 'heard'; readonly place: ShowPlace }
  /** Once, to a writer that has a record: there is a first record of the views. */
  | { readonly type: 'replay' }
  /** Requests of clients that it had told have been answered. */
  | { readonly type: 'asked' }
  | { readonly type: 'stop' }

/** Writer → main, of a node that is recorded or replayed. Heard where the thread is started. */
export type FromTape =
  /** Lines of a record, whole ones. */
  | { readonly type: 'recorded'; readonly lines: Uint8Array<ArrayBuffer> }
  /** Requests of clients, to be asked again before it goes on. */
  | { readonly type: 'ask'; readonly lines: readonly AskedLine[]; readonly at: AskedAt }
  /** How far a replay is, and how it ended. */
  | { readonly type: 'replaying'; readonly status: ReplayStatus }
  | { readonly type: 'replayed'; readonly ended: ReplayEnd & { readonly isCut: boolean } }

/** Writer → main, a hint: the truth is in the arena. */
export type FromWriter =
  | { readonly type: 'ready'; readonly record: number }
  | Exclude<
      WriterEffect,
      {
        readonly type:
          | 'keeper'
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
  /** Of a node that stays behind: it has this, and clients are shown it later. */
  | { readonly type: 'had'; readonly place: ShowPlace }
  | FromTape
  | { readonly type: 'gauges'; readonly values: Readonly<Record<string, number>> }
  | Trapped
  /** Storage cannot be read: what is shown stays, nothing more will be. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }

/** `isFollowed`: what it has changed comes next, in a message of its own. */
export type Published = Extract<WriterEffect, { readonly type: 'published' }> & {
  readonly isFollowed: boolean
}

/** The engine failed, and another one did its work. */
export type Trapped = { readonly type: 'trapped'; readonly reason: string }

/** Main → keeper. */
export type ToKeeper =
  /** Transactions of the txpool that were shown: milliseconds since they were taken. */
  | { readonly type: 'taken'; readonly ms: readonly number[] }
  /** The writer has stopped before. */
  | { readonly type: 'stop' }

/** Keeper → main. */
export type FromKeeper =
  /** The database is as it should be; what was cut off by a crash is repaired. `dropped`: appended blocks with a wrong root. */
  | {
      readonly type: 'ready'
      readonly foldedNumber: number
      readonly durableNumber: number
      readonly dropped: number
    }
  /** Once a second. */
  | {
      readonly type: 'stats'
      readonly stats: KeeperStats & { readonly logBytes: number }
      readonly ledger: LedgerStats
    }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }

/** Keeper → writer, before any answer: what the writer starts on. */
export type KeeperOpened = { readonly type: 'opened'; readonly opened: OpenedChain }

/** Sequencer → writer, over a port of their own: what becomes of the chain waits for no other thread. */
export type SequencerToWriter =
  /** As it goes out at /feed. Journalled already. */
  | { readonly type: 'packet'; readonly packet: Bytes }
  | { readonly type: 'sealed'; readonly block: SealedBlock }
  /** Canonical goes back to this block. */
  | { readonly type: 'rewind'; readonly to: StoredHead }
  | { readonly type: 'pin'; readonly number: number | undefined }

/** Writer → sequencer, over the same port: there is a newer record, and in it perhaps the next block's parent. */
export type WriterToSequencer = { readonly type: 'published' }

/** Main → sequencer. */
export type ToSequencer =
  /** Once: there is a first record. */
  | { readonly type: 'start' }
  | ({ readonly type: 'transactions'; readonly request: number } & Offered)
  /** The pool may have something that it had not when it answered last: said once until the next answer. */
  | { readonly type: 'news' }
  /** For the next block. */
  | { readonly type: 'deposit'; readonly deposit: UserDeposit }
  /** One after the other; each is answered once. */
  | ({ readonly type: 'control' } & ControlRequest)
  | { readonly type: 'stop' }

/** Sequencer → main. */
export type FromSequencer =
  /** What the journal held is in the feed again, up to this flashblock. */
  | { readonly type: 'ready'; readonly newest: FlashblockPlace | undefined }
  /**
   * Best transactions first, at most `gas` by their limits and `count`; answered once. `number` and `index` name the flashblock they
   * are for: those that are not in it once it is published may be handed out again.
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
  /** Hashes: not executed, and not refused either. */
  | { readonly type: 'returned'; readonly transactions: readonly Bytes[] }
  /** For the readers of /feed; the writer has it already. */
  | { readonly type: 'packet'; readonly packet: Bytes; readonly place: FeedPlace | undefined }
  /** The packet before it left so many milliseconds after it was due. */
  | { readonly type: 'late'; readonly ms: number }
  /** Did not execute: leaves the pool. */
  | {
      readonly type: 'rejected'
      readonly transactions: readonly Rejected[]
    }
  | { readonly type: 'deposited'; readonly deposited: Deposited }
  | { readonly type: 'controlled'; readonly answer: ControlAnswer }
  /** For metrics and the log; nothing stops. */
  | { readonly type: 'count'; readonly what: SequencerCount; readonly message: string }
  | Trapped
  /** No further block will come from this thread. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }
