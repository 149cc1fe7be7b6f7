/**
 * Lines of a recording: the first describes the node; each further line is an input of its writer,
 * in order.
 */
import type { Endpoint, LatestHead } from '../../engine/chain/types.ts'
import type { ForkTimes } from '../../engine/chainspec/fork-times.ts'
import type { WriterEvent, WriterLimits } from '../../engine/sources/writer/types.ts'
import type {
  FillRow,
  PersistenceResponse,
  ResyncStart,
  StoredHead,
} from '../../engine/storage/types.ts'
import type { Limits } from '../../rpc/core/limits.ts'
import type { StateMode } from '../../rpc/core/ports.ts'

export type Head = {
  readonly type: 'head'
  /** Version of the program. */
  readonly version: string
  /** Name of a known chain, or the text of a genesis.json. */
  readonly chain: { readonly name: string } | { readonly genesis: string }
  /** Fork times that replace those of the chain (`--fork-time`). */
  readonly forkTimes?: ForkTimes | undefined
  readonly mode: StateMode
  /** Start of a lazy state; undefined if the node started from the genesis. */
  readonly start: ResyncStart | undefined
  readonly heldFlashblocks: number
  /** Limits of the recorded client requests; undefined if they are not recorded. */
  readonly requests: RequestBounds | undefined
  /** Configuration with which requests were answered. */
  readonly serving: Serving
}

export type RequestBounds = { readonly perSecond: number; readonly bytesPerSecond: number }
/** Settings of a node that change its responses. */
export type Serving = {
  readonly latest: LatestHead
  readonly methods: 'all' | 'standard'
  readonly traceModeOptional: boolean
  /** Limits that differ from their defaults. */
  readonly limits: Partial<Limits>
}

/** Clocks at the time of an input. */
export type Taken = {
  /** Milliseconds that the writer's clock returned at each of its calls. */
  readonly now: readonly number[]
  /** Milliseconds since 1970. */
  readonly wall: number
}

/** Names a response of the persistence thread; in a replay the thread makes the response again. */
export type ResponseName = { readonly type: PersistenceResponse['type']; readonly of: unknown }

export type Line =
  | RequestLine
  | LeftLine
  /** The writer started. */
  | (Taken & {
      readonly type: 'open'
      readonly seed: number
      readonly limits: Partial<WriterLimits>
    })
  /**
   * State values, code or headers that were fetched; they are in the database before the next line.
   */
  | (Taken & {
      readonly type: 'fill'
      readonly block: StoredHead
      readonly rows: readonly FillRow[]
    })
  /** A frame as it arrived. */
  | (Taken & {
      readonly type: 'frame'
      readonly feed: number
      readonly receivedAtMs: number
      readonly raw: Uint8Array
    } & After)
  | (Taken & {
      readonly type: 'answer'
      readonly answer: ResponseName
    } & After)
  | (Taken & {
      readonly type: 'event'
      readonly event: Exclude<WriterEvent, { readonly type: 'packet' | 'answer' }>
    } & After)
  /** Transactions that the txpool accepted. */
  | {
      readonly type: 'expect'
      readonly transactions: readonly { readonly raw: Uint8Array; readonly from?: Uint8Array }[]
    }

/**
 * `published` is the newest snapshot after the line, if it made one. Requests that read the
 * snapshot before are repeated until then.
 */
type After = { readonly published?: number | undefined; readonly shows?: VisibleHeads | undefined }

/**
 * A client's request and its response, without the client's identity. The line follows that of the
 * snapshot which it read.
 */
export type RequestLine = {
  readonly type: 'request'
  /** Time of the response in milliseconds since 1970, and its duration. */
  readonly wall: number
  readonly ms: number
  readonly endpoint: Endpoint
  /** True if the request came over a WebSocket. */
  readonly isSocket: boolean
  /** Some of the methods, for people. */
  readonly methods: readonly string[]
  /** Number of the snapshot that the response was read from. */
  readonly record: number
  /** The request to repeat. If it is missing, `apart` says why, and its content is not recorded. */
  readonly asked?: Question | undefined
  readonly apart?: Apart | undefined
}
export type Question = {
  readonly body: string
  /** Value of X-Min-Flashblock. */
  readonly minFlashblock?: string | undefined
  /**
   * One digest, or one for each item of a batch; items that are not repeated are missing here and
   * in the body.
   */
  readonly answers: readonly ResponseDigest[]
}
/** `begins` has all of a short response. */
export type ResponseDigest = {
  readonly bytes: number
  /** XXH3 hash. */
  readonly hash: bigint
  readonly begins: string
}
/** Reasons why the same request gets another response on the same view. */
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
/** Number of requests left out since the previous line, because of the limits. */
export type LeftLine = { readonly type: 'left'; readonly wall: number; readonly requests: number }

/** Heads that are visible after a line; a replay is compared with them. */
export type VisibleHeads = {
  readonly record: number
  readonly canonical: number
  readonly pending: number
  readonly index: number
  /** Hash of the partial header of the pending block up to its newest flashblock. */
  readonly hash: Uint8Array
  readonly canonicalHash: Uint8Array
}

export type FlashblockPosition = { readonly number: number; readonly index: number }
export type ReplayData = {
  readonly path: string
  /** Speed relative to the recording; undefined replays as fast as possible. */
  readonly speed: number | undefined
  /**
   * The replay ends at the first flashblock at or after this position; undefined replays the whole
   * recording.
   */
  readonly until: FlashblockPosition | undefined
}

export type ReplayStatus = {
  readonly frames: number
  readonly blocks: number
  readonly values: number
  readonly events: number
  /** Number of comparisons with the visible heads of the recording. */
  readonly held: number
  /** The newest visible heads. */
  readonly shown: VisibleHeads | undefined
}
/** The result of a replay. */
export type ReplayEnd = ReplayStatus & {
  /** The first difference from the recording; undefined if there is none. */
  readonly differs: string | undefined
  readonly isStopped: boolean
}

export const nameOf = (response: PersistenceResponse): ResponseName => {
  const { type } = response
  switch (type) {
    case 'filled':
    case 'preview':
      return { type, of: response.request }
    case 'unfolded':
      return { type, of: response.toId }
    case 'rewound':
      return { type, of: response.hash }
    case 'labelled':
      return { type, of: response.labelledHeads }
    case 'failed':
      return { type, of: response.message }
    default:
      return { type, of: response.id }
  }
}
