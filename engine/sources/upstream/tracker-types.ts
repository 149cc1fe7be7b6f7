/** Events, effects and limits of the tracker. */
import type { Hex } from '../../primitives/bytes.ts'
import type { Suspicion } from '../suspicion.ts'
import type { UnknownType } from './block-json.ts'
import type { FailureKind } from './error.ts'
import type { Head } from './header-json.ts'
import type { UpstreamLimits } from './limits.ts'

export type Point = { readonly number: number; readonly hash: Hex }

/** A block from an upstream, verified against its hash. */
export type TrackedBlock = Point & {
  readonly parentHash: Hex
  readonly gasUsed: number
  /** Bytes of its transactions. */
  readonly bytes: number
  /** The block cannot be executed here, and is not sent. */
  readonly unknown?: UnknownType | undefined
}

/**
 * `request` is the number in the effect that asked; each such effect has one response. `upstream`
 * counts from 0 in the order of naming.
 */
export type TrackerEvent<B extends TrackedBlock> =
  /** Response to a poll, or a pushed head (no request). `tags` are there if requested and known. */
  | {
      readonly type: 'head'
      readonly upstream: number
      readonly request: number | undefined
      readonly head: Head
      readonly tags?: { readonly safe: Point | undefined; readonly finalized: Point | undefined }
    }
  /** Consecutive blocks from the first requested one on; fewer if the upstream has no more. */
  | { readonly type: 'blocks'; readonly request: number; readonly blocks: readonly B[] }
  /** Hash of one block; undefined: the upstream has none at that height. */
  | { readonly type: 'hash'; readonly request: number; readonly hash: Hex | undefined }
  | {
      readonly type: 'failed'
      readonly request: number
      readonly kind: FailureKind
      readonly message: string
      readonly retryAfterMs: number
    }
  /** The upstream has another chain and is never asked again. */
  | { readonly type: 'foreign'; readonly request: number; readonly message: string }
  /** Our canonical head, which may have changed. */
  | { readonly type: 'published'; readonly head: Point }
  /** The writer's execution gives another block. */
  | {
      readonly type: 'refused'
      readonly number: number
      readonly hash: Hex
      readonly field: string
      readonly reason?: string
    }
  /** The receiver of `left` has decided on a resync. Nothing is sent until its end or refusal. */
  | { readonly type: 'beginning' }
  | {
      readonly type: 'begun'
      readonly head: Point
      readonly safe: number
      readonly finalized: number
    }
  | { readonly type: 'notBegun' }
  | { readonly type: 'tick' }

/**
 * A question to one upstream. `hasOthers`: another upstream is expected to answer, so a rate limit
 * need not be waited for.
 */
export type Question = {
  readonly request: number
  readonly upstream: number
  readonly hasOthers: boolean
}
export type TrackerEffect<B extends TrackedBlock> =
  /** Asks for the newest head, and for labelled heads when they are due. */
  | (Question & { readonly type: 'poll'; readonly hasTags: boolean })
  | (Question & { readonly type: 'fetch'; readonly first: number; readonly count: number })
  | (Question & { readonly type: 'ask'; readonly number: number })
  /** The next block of the chain, for the writer. */
  | { readonly type: 'sealed'; readonly block: B }
  | { readonly type: 'marks'; readonly safe: number; readonly finalized: number }
  /**
   * A lazy state apparently cannot continue from our head; repeated while this holds. `past`: a
   * block that cannot be executed here.
   */
  | { readonly type: 'left'; readonly why: string; readonly past?: number | undefined }
  | { readonly type: 'count'; readonly what: TrackerCount; readonly by: number }
  /** Log line. */
  | { readonly type: 'warning'; readonly message: string }
  | ({ readonly type: 'halted' } & Halted)
  /** The reason of the halt is gone. */
  | { readonly type: 'resumed' }
  | { readonly type: 'status'; readonly status: TrackerStatus }

/** The wrong field of a block, and the reason if there is more to say. */
export type Refusal = { readonly field: string; readonly reason?: string | undefined }

/**
 * `deep`: a reorg is deeper than the undo window. `refused`: all upstreams give a block that
 * differs from our execution. `type`: the block has a transaction of an unsupported type.
 */
export type Halt = 'deep' | 'refused' | 'type'
export type Halted = { readonly why: Halt; readonly message: string }

export type TrackerCount =
  | 'upstream_rests'
  | 'upstream_limited'
  | 'upstream_disagrees'
  | 'upstream_blocks'
  | 'upstream_reorgs'
  | 'upstream_reorg_blocks'
  | 'upstream_refused_blocks'
  | 'upstream_state_left'

export type UpstreamStatus = {
  readonly name: string
  readonly head: number | undefined
  /** Reason of the backoff; undefined: there is none. */
  readonly rests: string | undefined
}
export type CatchUp = {
  readonly from: number
  readonly at: number
  readonly to: number
  readonly blocksPerSecond: number
  readonly mgasPerSecond: number
  /** undefined: the remaining time is not known yet. */
  readonly leftMs: number | undefined
}
export type TrackerStatus = {
  /** Head of the followed upstream. */
  readonly head: number | undefined
  readonly canonical: number
  readonly upstreams: readonly UpstreamStatus[]
  /** Suspicions that do not stop the chain. */
  readonly degraded: readonly Suspicion[]
  readonly halted: Suspicion | undefined
  /** undefined: the chain is at the upstream's head, or nearly. */
  readonly catchUp: CatchUp | undefined
}

export type TrackerTimes = {
  /**
   * Milliseconds between polls without pushed heads; other upstreams than the followed one have
   * four times this.
   */
  readonly pollMs: number
  /** Milliseconds without a pushed head before a poll. */
  readonly silentMs: number
  /** Milliseconds between two polls for labelled heads. */
  readonly tagsMs: number
  /** Milliseconds between two votes. */
  readonly voteMs: number
  /** Milliseconds between tries without other upstreams, at first and at most. */
  readonly backoffMs: number
  readonly maxBackoffMs: number
  /**
   * Milliseconds without a new head after which an upstream lags by the word of a single other one.
   */
  readonly standsMs: number
  readonly statusMs: number
}

/** @param blockTimeMs block time of the chain */
export const trackerTimes = (blockTimeMs: number): TrackerTimes => ({
  pollMs: Math.max(50, blockTimeMs / 2),
  silentMs: Math.max(3_000, 3 * blockTimeMs),
  tagsMs: Math.max(2_000, 2 * blockTimeMs),
  voteMs: 5_000,
  backoffMs: 500,
  maxBackoffMs: 10_000,
  standsMs: Math.max(5_000, 5 * blockTimeMs),
  statusMs: 1_000,
})

export type TrackerOptions = {
  readonly upstreams: readonly { readonly name: string }[]
  /** Returns monotonic milliseconds. */
  readonly now: () => number
  /**
   * Returns the hash of our canonical block; undefined: none at that height yet, or no longer
   * known.
   */
  readonly hashOf: (number: number) => Hex | undefined
  readonly head: Point
  /** Height up to which no block is ever replaced. */
  readonly finalized: number
  /** Canonical blocks that the writer can unwind. */
  readonly undoBlocks: number
  /**
   * First block of a lazy state; no block up to it can be unwound. undefined: the state is
   * complete.
   */
  readonly lazyStart?: number | undefined
  /**
   * Returns how far below the upstreams' head their state can be read. undefined: their state is
   * not needed, or the depth is unknown.
   */
  readonly stateDepth?: (() => number | undefined) | undefined
  /** Upstreams by name that most others contradict at the start; they begin in backoff. */
  readonly suspected?: ReadonlyMap<string, string> | undefined
  readonly times: TrackerTimes
  readonly limits: Pick<
    UpstreamLimits,
    | 'upstreamRestMs'
    | 'upstreamLagBlocks'
    | 'catchUpRange'
    | 'catchUpRanges'
    | 'catchUpBlocks'
    | 'catchUpBytes'
  >
}
