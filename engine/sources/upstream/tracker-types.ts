/** What the tracker hears, what it wants done, and its limits. */
import type { Hex } from '../../primitives/bytes.ts'
import type { Doubt } from '../doubt.ts'
import type { UnknownType } from './block-json.ts'
import type { FailureKind } from './error.ts'
import type { Head } from './header-json.ts'
import type { UpstreamLimits } from './limits.ts'

export type Point = { readonly number: number; readonly hash: Hex }

/** A block that an upstream has given, held to its hash. */
export type TrackedBlock = Point & {
  readonly parentHash: Hex
  readonly gasUsed: number
  /** Of its transactions. */
  readonly bytes: number
  /** It cannot be executed here, and is not sent. */
  readonly unknown?: UnknownType | undefined
}

/** `request`: that of the effect that asked. Every such effect is answered once; `upstream` counts from 0 in the order of naming. */
export type TrackerEvent<B extends TrackedBlock> =
  /** The answer to a poll, or pushed (no request). `tags`: only where they were asked for and are known. */
  | {
      readonly type: 'head'
      readonly upstream: number
      readonly request: number | undefined
      readonly head: Head
      readonly tags?: { readonly safe: Point | undefined; readonly finalized: Point | undefined }
    }
  /** From the first asked for on, one on the other; fewer than asked for where the upstream has no more. */
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
  /** It is of another chain: never asked again. */
  | { readonly type: 'foreign'; readonly request: number; readonly message: string }
  /** Our canonical head, whenever it may have changed. */
  | { readonly type: 'published'; readonly head: Point }
  /** The writer does not come to the same block. */
  | {
      readonly type: 'refused'
      readonly number: number
      readonly hash: Hex
      readonly field: string
      readonly reason?: string
    }
  /** Whoever was told by `left` has found that our state begins anew: nothing is sent until it has, or has not. */
  | { readonly type: 'beginning' }
  | {
      readonly type: 'begun'
      readonly head: Point
      readonly safe: number
      readonly finalized: number
    }
  | { readonly type: 'notBegun' }
  | { readonly type: 'tick' }

/** To one upstream. `hasOthers`: another one answers, as far as is known, so this one need not be waited for where it wants fewer calls. */
export type Question = {
  readonly request: number
  readonly upstream: number
  readonly hasOthers: boolean
}
export type TrackerEffect<B extends TrackedBlock> =
  /** Its newest head, with the tags where they are due. */
  | (Question & { readonly type: 'poll'; readonly hasTags: boolean })
  | (Question & { readonly type: 'fetch'; readonly first: number; readonly count: number })
  | (Question & { readonly type: 'ask'; readonly number: number })
  /** The next block of the chain, for the writer. */
  | { readonly type: 'sealed'; readonly block: B }
  | { readonly type: 'marks'; readonly safe: number; readonly finalized: number }
  /**
   * A state that is fetched cannot go on from our head, as it seems. Said again while it seems so.
   * `past` is a block that nobody can execute here.
   */
  | { readonly type: 'left'; readonly why: string; readonly past?: number | undefined }
  | { readonly type: 'count'; readonly what: TrackerCount; readonly by: number }
  /** For the log. */
  | { readonly type: 'warning'; readonly message: string }
  | ({ readonly type: 'halted' } & Halted)
  /** Whatever had halted is over. */
  | { readonly type: 'resumed' }
  | { readonly type: 'status'; readonly status: TrackerStatus }

/** In what a block is wrong, and why where there is more to say. */
export type Refusal = { readonly field: string; readonly reason?: string | undefined }

/**
 * `deep`: the chain was replaced deeper than we can go back. `refused`: what all upstreams give is
 * not what we compute. `type`: it has a transaction of a type that is not supported.
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
  /** Why it is not asked; undefined: it is. */
  readonly rests: string | undefined
}
export type CatchUp = {
  readonly from: number
  readonly at: number
  readonly to: number
  readonly blocksPerSecond: number
  readonly mgasPerSecond: number
  /** undefined: not known yet. */
  readonly leftMs: number | undefined
}
export type TrackerStatus = {
  /** Of the upstream that is followed. */
  readonly head: number | undefined
  readonly canonical: number
  readonly upstreams: readonly UpstreamStatus[]
  /** What is not as it should be, and does not stop the chain. */
  readonly degraded: readonly Doubt[]
  readonly halted: Doubt | undefined
  /** undefined: it is at the upstream's head, or almost. */
  readonly catchUp: CatchUp | undefined
}

export type TrackerTimes = {
  /** Between two questions for a head while nobody tells of one; four times that is the pace of upstreams that are not followed. */
  readonly pollMs: number
  /** Without a head from one that tells, before it is asked. */
  readonly silentMs: number
  /** Between two questions for safe and finalized. */
  readonly tagsMs: number
  /** Between two questions of all for one hash. */
  readonly voteMs: number
  /** Between two tries where there is nobody else to ask, at first and at most. */
  readonly backoffMs: number
  readonly maxBackoffMs: number
  /** An upstream whose head does not move is behind after so long, where only one other one says so. */
  readonly standsMs: number
  readonly statusMs: number
}

/** @param blockTimeMs of the chain */
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
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Of our canonical chain; undefined: none at that height (yet), or not known any more. */
  readonly hashOf: (number: number) => Hex | undefined
  readonly head: Point
  /** Nothing up to here is ever replaced. */
  readonly finalized: number
  /** Canonical blocks that the writer can take back. */
  readonly undoBlocks: number
  /** The block at which a state that is fetched begins: nothing up to it can be taken back. undefined: the state is whole. */
  readonly lazyStart?: number | undefined
  /** How far below the upstreams' head their state can be read; undefined: it is not, or needs not be. */
  readonly stateDepth?: (() => number | undefined) | undefined
  /** By name, what most others contradict already: they rest at first. */
  readonly doubted?: ReadonlyMap<string, string> | undefined
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
