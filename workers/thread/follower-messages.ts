/** Messages between the source of a following node and the other threads: plain data. */
import type { UpstreamBlock } from '../../engine/chain/types.ts'
import type { FetchCount } from '../../engine/sources/lazy/fetcher.ts'
import type { RpcFault } from '../../engine/sources/upstream/error.ts'
import type {
  Halted,
  TrackerCount,
  TrackerStatus,
} from '../../engine/sources/upstream/tracker-types.ts'
import type {
  CheckEffect,
  LazyResync,
  NeedEffect,
  ResyncedEffect,
  WriterEffect,
} from '../../engine/sources/writer/types.ts'
import type { MissingKey } from '../../engine/state/reader.ts'
import type { PersistenceRequest, PersistenceResponse } from '../../engine/storage/types.ts'

/** Main → follower. */
export type ToFollower =
  /** Sent once, when there is a first snapshot. */
  | { readonly type: 'start' }
  /** Requests state that a call has missed. */
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
      /** List of parameters as JSON. */
      readonly params: string
      readonly to: 'upstream' | 'sequencer'
      /** Address of the caller, for the limit of concurrent requests. */
      readonly client: string
    }
  /** The requester no longer waits for the fetch. */
  | { readonly type: 'cancel'; readonly request: number }
  | { readonly type: 'stop' }

/**
 * A result as JSON, an upstream's error, or the reason why the outcome is unknown. In the last case
 * the call may have been carried out.
 */
export type Forwarded =
  | { readonly result: string }
  | { readonly error: RpcFault }
  | { readonly silent: string }

/** Follower → main. */
export type FromFollower =
  /** The upstreams that respond have the expected chain, and the follower follows them. */
  | { readonly type: 'ready' }
  | { readonly type: 'fetched'; readonly request: number; readonly failed?: string }
  | { readonly type: 'forwarded'; readonly request: number; readonly response: Forwarded }
  /** Sent once a second. */
  | { readonly type: 'status'; readonly status: TrackerStatus }
  | {
      readonly type: 'count'
      readonly what: TrackerCount | FetchCount | 'state_checked' | 'state_unchecked'
      readonly by: number
    }
  | { readonly type: 'warning'; readonly message: string }
  /** The chain has stopped until `resumed`. */
  | ({ readonly type: 'halted' } & Halted)
  | { readonly type: 'resumed' }
  /**
   * This thread sends no further block. Before `ready` it refuses the start, because an upstream
   * has another chain.
   */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }

/** Follower → writer, over their own port. */
export type FollowerToWriter =
  | { readonly type: 'sealed'; readonly block: UpstreamBlock }
  /** Safe and finalized heads by the source's tags; both blocks are canonical here. */
  | { readonly type: 'marks'; readonly safe: number; readonly finalized: number }
  | { readonly type: 'fetched'; readonly request: number; readonly failed?: string }
  /** All upstreams agree that our head has no continuation, so the chain resyncs. */
  | ({ readonly type: 'begin' } & LazyResync)
  /**
   * Fill request of a recorded node: the writer passes it to the persistence thread, and `filled`
   * answers it.
   */
  | (PersistenceRequest & { readonly type: 'fill' })
  /** The state that one of our blocks wrote differs from the upstream's state after that block. */
  | { readonly type: 'distrust'; readonly reason: string }

/** Writer → follower, over the same port. */
export type WriterToFollower =
  | { readonly type: 'published' }
  /** State that an event has missed; answered once with `fetched`. */
  | NeedEffect
  /**
   * An upstream block that differs from the result of its transactions. No block on top of it is
   * accepted.
   */
  | Extract<WriterEffect, { readonly type: 'refused' }>
  /** Keys that a canonical block wrote, to be checked after it. */
  | CheckEffect
  /** Answers a fill that went through the writer. */
  | (PersistenceResponse & { readonly type: 'filled' })
  /** Outcome of a resync. */
  | ResyncedEffect
  | Extract<WriterEffect, { readonly type: 'notBegun' }>
