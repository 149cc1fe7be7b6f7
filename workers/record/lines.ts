/** What the lines of a record are: the first says what the node was, each other one is something that its writer took, in that order. */
import type { Endpoint, LatestHead } from '../../engine/chain/types.ts'
import type { ForkTimes } from '../../engine/chainspec/fork-times.ts'
import type { WriterEvent, WriterLimits } from '../../engine/sources/writer/types.ts'
import type { Beginning, FillRow, KeeperAnswer, StoredHead } from '../../engine/storage/types.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import type { StateMode } from '../../rpc/seam/ports.ts'

export type Head = {
  readonly type: 'head'
  /** Of the program. */
  readonly version: string
  /** A name that is known, or the text of the genesis.json. */
  readonly chain: { readonly name: string } | { readonly genesis: string }
  /** Times of forks in place of the chain's own (`--fork-time`). */
  readonly forkTimes?: ForkTimes | undefined
  readonly mode: StateMode
  /** What a lazy state began with; undefined: the genesis. */
  readonly start: Beginning | undefined
  readonly heldFlashblocks: number
  /** Requests of clients, so many a second at most, and bytes of them; undefined: they are not in it. */
  readonly requests: RequestBounds | undefined
  /** How they were answered. */
  readonly serving: Serving
}

export type RequestBounds = { readonly perSecond: number; readonly bytesPerSecond: number }
/** What of a node's configuration can be seen in answers. */
export type Serving = {
  readonly latest: LatestHead
  readonly methods: 'all' | 'standard'
  readonly traceModeOptional: boolean
  /** Those that are not the default. */
  readonly limits: Partial<Limits>
}

/** When it was taken. */
export type Taken = {
  /** What the writer's clock said each time that it was asked, in milliseconds. */
  readonly now: readonly number[]
  /** Milliseconds since 1970. */
  readonly wall: number
}

/** Of a keeper's answer what names it: the answer itself comes of the keeper again. */
export type AnswerName = { readonly type: KeeperAnswer['type']; readonly of: unknown }

export type Line =
  | RequestLine
  | LeftLine
  /** The writer begins. */
  | (Taken & {
      readonly type: 'open'
      readonly seed: number
      readonly limits: Partial<WriterLimits>
    })
  /** Values of the state, or code, or headers, that were read of others: they are in the database before the next line. */
  | (Taken & {
      readonly type: 'fill'
      readonly block: StoredHead
      readonly rows: readonly FillRow[]
    })
  /** A frame as it came. */
  | (Taken & {
      readonly type: 'frame'
      readonly feed: number
      readonly receivedAtMs: number
      readonly raw: Uint8Array
    } & After)
  | (Taken & {
      readonly type: 'answer'
      readonly answer: AnswerName
    } & After)
  | (Taken & {
      readonly type: 'event'
      readonly event: Exclude<WriterEvent, { readonly type: 'packet' | 'answer' }>
    } & After)
  /** The txpool has accepted these. */
  | {
      readonly type: 'expect'
      readonly transactions: readonly { readonly raw: Uint8Array; readonly from?: Uint8Array }[]
    }

/** `published`: the record that is the newest after it, where it made one; until then requests are asked again that read the one before. */
type After = { readonly published?: number | undefined; readonly shows?: Shown | undefined }

/** A body that a client sent, and what it was answered: nothing of who it is. Such lines stand somewhere behind that of the record that they read. */
export type RequestLine = {
  readonly type: 'request'
  /** When it was answered, milliseconds since 1970; how long that took. */
  readonly wall: number
  readonly ms: number
  readonly endpoint: Endpoint
  /** It came over a WebSocket. */
  readonly isSocket: boolean
  /** Some names: for those who look. */
  readonly methods: readonly string[]
  /** The record that its answer was read from. */
  readonly record: number
  /** What is asked again; otherwise why not, and nothing of what it said. */
  readonly asked?: Question | undefined
  readonly apart?: Apart | undefined
}
export type Question = {
  readonly body: string
  /** X-Min-Flashblock, as it was sent. */
  readonly minFlashblock?: string | undefined
  /** One, or those of a batch; items that are not asked again are neither here nor in the body. */
  readonly answers: readonly AnswerDigest[]
}
/** `begins`: all of it, where it is short. */
export type AnswerDigest = {
  readonly bytes: number
  /** XXH3. */
  readonly hash: bigint
  readonly begins: string
}
/** Why the same question has another answer, though the view is the same. */
export type Apart =
  | 'send'
  | 'subscription'
  | 'filter'
  | 'ledger'
  | 'node'
  | 'views'
  | 'txpool'
  | 'elsewhere'
  | 'machine'
/** So many were left out since the line before, because of the bounds. */
export type LeftLine = { readonly type: 'left'; readonly wall: number; readonly requests: number }

/** What can be read after it: a replay is held to it. */
export type Shown = {
  readonly record: number
  readonly canonical: number
  readonly pending: number
  readonly index: number
  /** Of the pending block up to its newest flashblock: header, receipts and all. */
  readonly hash: Uint8Array
  readonly canonicalHash: Uint8Array
}

export type Place = { readonly number: number; readonly index: number }
export type ReplayData = {
  readonly path: string
  /** How many times as fast as it was; undefined: as fast as it goes. */
  readonly speed: number | undefined
  /** The first flashblock at, or behind, which it ends; undefined: the end of the record. */
  readonly until: Place | undefined
}

export type ReplayStatus = {
  readonly frames: number
  readonly blocks: number
  readonly values: number
  readonly events: number
  /** Times that something was shown, and held to what the record says. */
  readonly held: number
  /** The newest flashblock. */
  readonly shown: Shown | undefined
}
/** How it ended. */
export type ReplayEnd = ReplayStatus & {
  /** What was shown otherwise than in the record; undefined: nothing. */
  readonly differs: string | undefined
  readonly isStopped: boolean
}

export const nameOf = (answer: KeeperAnswer): AnswerName => {
  const { type } = answer
  switch (type) {
    case 'filled':
    case 'preview':
      return { type, of: answer.request }
    case 'unfolded':
      return { type, of: answer.toId }
    case 'rewound':
      return { type, of: answer.hash }
    case 'labelled':
      return { type, of: answer.marks }
    case 'failed':
      return { type, of: answer.message }
    default:
      return { type, of: answer.id }
  }
}
