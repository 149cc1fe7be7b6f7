/** What a following node's source says to the others, and hears: plain data. */
import type { SealedBlock } from '../../engine/chain/types.ts'
import type { FetchCount } from '../../engine/sources/lazy/fetcher.ts'
import type { RpcFault } from '../../engine/sources/upstream/error.ts'
import type {
  Halted,
  TrackerCount,
  TrackerStatus,
} from '../../engine/sources/upstream/tracker-types.ts'
import type {
  BegunEffect,
  CheckEffect,
  LazyBeginning,
  NeedEffect,
  WriterEffect,
} from '../../engine/sources/writer/types.ts'
import type { MissingKey } from '../../engine/state/reader.ts'
import type { KeeperAnswer, KeeperRequest } from '../../engine/storage/types.ts'

/** Main → follower. */
export type ToFollower =
  /** Once: there is a first record. */
  | { readonly type: 'start' }
  /** State that a call has missed. */
  | {
      readonly type: 'fetch'
      readonly request: number
      readonly keys: readonly MissingKey[]
      readonly for: 'send' | 'call'
      readonly client: string
    }
  | {
      readonly type: 'forward'
      readonly request: number
      readonly method: string
      /** JSON of the list of parameters. */
      readonly params: string
      readonly to: 'upstream' | 'sequencer'
      /** Whose call it is, for what one may have at a time. */
      readonly client: string
    }
  /** Nobody waits for that fetch any more. */
  | { readonly type: 'cancel'; readonly request: number }
  | { readonly type: 'stop' }

/** JSON of a result; an error as it came; or why nothing is known: the call may have been carried out. */
export type Forwarded =
  | { readonly result: string }
  | { readonly error: RpcFault }
  | { readonly silent: string }

/** Follower → main. */
export type FromFollower =
  /** The upstreams that answer have the chain, and are followed. */
  | { readonly type: 'ready' }
  | { readonly type: 'fetched'; readonly request: number; readonly failed?: string }
  | { readonly type: 'forwarded'; readonly request: number; readonly answer: Forwarded }
  /** Once a second. */
  | { readonly type: 'status'; readonly status: TrackerStatus }
  | {
      readonly type: 'count'
      readonly what: TrackerCount | FetchCount | 'state_checked' | 'state_unchecked'
      readonly by: number
    }
  | { readonly type: 'warning'; readonly message: string }
  /** The chain does not go on, until `resumed`. */
  | ({ readonly type: 'halted' } & Halted)
  | { readonly type: 'resumed' }
  /** No further block will come from this thread. Before `ready`: the start is refused, an upstream has another chain. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }

/** Follower → writer, over a port of their own. */
export type FollowerToWriter =
  | { readonly type: 'sealed'; readonly block: SealedBlock }
  /** From the source's tags, both of blocks that are canonical here. */
  | { readonly type: 'marks'; readonly safe: number; readonly finalized: number }
  | { readonly type: 'fetched'; readonly request: number; readonly failed?: string }
  /** All upstreams together say that our head cannot be gone on from. */
  | ({ readonly type: 'begin' } & LazyBeginning)
  /** Of a node that is recorded: for the keeper, by way of the writer. Answered with `filled`. */
  | (KeeperRequest & { readonly type: 'fill' })
  /** What a block of ours wrote is not what the upstream has after it. */
  | { readonly type: 'distrust'; readonly reason: string }

/** Writer → follower, over the same port. */
export type WriterToFollower =
  /** There is a newer record. */
  | { readonly type: 'published' }
  /** State that an event has missed: answered once with `fetched`. */
  | NeedEffect
  /** A sealed block that is not what comes of its transactions: nothing that stands on it is taken. */
  | Extract<WriterEffect, { readonly type: 'refused' }>
  /** Keys that a canonical block wrote, to be looked up after it. */
  | CheckEffect
  /** Of a fill that went by way of the writer. */
  | (KeeperAnswer & { readonly type: 'filled' })
  /** What became of `begin`. */
  | BegunEffect
  | Extract<WriterEffect, { readonly type: 'notBegun' }>
