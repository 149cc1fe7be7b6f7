/**
 * Messages from the node to its status page, over one WebSocket: JSON lists of these. Times are
 * milliseconds since 1970.
 */

export type Hello = {
  readonly type: 'hello'
  readonly version: string
  /** Distinguishes this run of the node from others. */
  readonly run: string
  readonly chainId: string
  readonly chainName: string
  /** Source of the node's blocks, or trust in its state. */
  readonly mode: 'dev' | 'stored' | 'whole' | 'proven' | 'trusted'
  readonly blockMs: number
  /** The page is on the admin port and also gets the node's internals. */
  readonly isInside: boolean
  /** The node is a development chain with controls. */
  readonly hasControls: boolean
  /** Time of the node's clock. */
  readonly now: number
}

export type FlashblockAdded = {
  readonly type: 'flashblock'
  readonly number: number
  readonly index: number
  /** undefined when the flashblock came with the canonical block, and not from a feed. */
  readonly payloadId?: string | undefined
  /**
   * Arrival of the frame, time until its publish, and execution time as a part of that. Undefined
   * when no longer known.
   */
  readonly at?: number | undefined
  readonly publishMs?: number | undefined
  readonly executeMs?: number | undefined
  readonly transactions: number
  /** Gas of the block so far. */
  readonly gasUsed: number
  readonly gasLimit: number
}
/** The flashblock is no longer in the chain. */
export type FlashblockRemoved = {
  readonly type: 'removed'
  readonly number: number
  readonly index: number
  readonly payloadId?: string | undefined
}
export type BlockSealed = {
  readonly type: 'sealed'
  readonly number: number
  readonly hash: string
  readonly flashblocks: number
  readonly transactions: number
  readonly gasUsed: number
  readonly at: number
}
/** An unusual event of the feeds or the chain. */
export type Happened = {
  readonly type: 'happened'
  readonly what: string
  readonly at: number
  readonly by: number
}

/** Counts since the start of the node. */
export type Histogram = {
  /** Upper bounds in seconds, ascending; values above the last one are in no bucket. */
  readonly bounds: readonly number[]
  /** Number of values up to each bound. */
  readonly counts: readonly number[]
  readonly count: number
  /** Sum in seconds. */
  readonly sum: number
}
export type Counts = Readonly<Record<string, number>>

/** Sent once a second. */
export type PageStats = {
  readonly type: 'figures'
  readonly at: number
  readonly heads: Counts
  /** Milliseconds since the newest publish. */
  readonly ageMs: number
  readonly status: 'ready' | 'degraded' | 'unready'
  readonly reasons: readonly string[]
  /** Counts of the txpool. */
  readonly waiting: Counts
  readonly publish: Histogram
  readonly execute: Histogram
  /**
   * Time from acceptance of a transaction to its visibility, and from there to its canonical block;
   * over restarts.
   */
  readonly shown: Histogram
  readonly sealed: Histogram
  readonly promises: Counts
  /** Only on the admin port. */
  readonly inside?: Inside | undefined
}

export type Inside = {
  /** Times by method. */
  readonly calls: Readonly<Record<string, Histogram>>
  /** Errors by method. */
  readonly errors: Counts
  /** Errors by code. */
  readonly codes: Counts
  /** Codes of errors that show a reached limit. */
  readonly boundCodes: Readonly<Record<'limited' | 'timeout', number>>
  /** Times by queue class. */
  readonly queuedFor: Readonly<Record<string, Histogram>>
  readonly ranFor: Readonly<Record<string, Histogram>>
  readonly queued: Counts
  readonly threads: Counts
  readonly front: Counts
  readonly holds: Counts
  readonly feed: Counts
  readonly refusedPoints: number
  readonly mishaps: Counts
  readonly events: Counts
  /** Bytes of the process, and of each thread beside the main one. */
  readonly residentBytes: number
  readonly heaps: Counts
  readonly cpuSeconds: number
  /** Entries as in /readyz; names leave out anything that may be a key. */
  readonly upstreams: readonly Readonly<Record<string, unknown>>[]
  readonly feeds: readonly Readonly<Record<string, unknown>>[]
}

export type LiveMessage =
  | Hello
  | FlashblockAdded
  | FlashblockRemoved
  | BlockSealed
  | Happened
  | PageStats
