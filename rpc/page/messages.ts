/** What the node tells whoever looks at its status page, over one WebSocket: lists of these, as JSON. Times are milliseconds since 1970. */

export type Hello = {
  readonly type: 'hello'
  readonly version: string
  /** Tells this run of the node from others. */
  readonly run: string
  readonly chainId: string
  readonly chainName: string
  /** Where its blocks come from, or what its state is worth. */
  readonly mode: 'dev' | 'stored' | 'whole' | 'proven' | 'trusted'
  readonly blockMs: number
  /** The admin port: what is inside comes too. */
  readonly isInside: boolean
  /** A development chain that can be told what to do. */
  readonly hasControls: boolean
  /** The node's clock. */
  readonly now: number
}

export type FlashblockTold = {
  readonly type: 'flashblock'
  readonly number: number
  readonly index: number
  /** undefined: no feed has brought it, it came with the canonical block. */
  readonly payloadId?: string | undefined
  /** When its frame arrived, how long until it could be read, and of that its execution; undefined: not known any more. */
  readonly at?: number | undefined
  readonly publishMs?: number | undefined
  readonly executeMs?: number | undefined
  readonly transactions: number
  /** Of the block so far. */
  readonly gasUsed: number
  readonly gasLimit: number
}
/** It is not in the chain any more. */
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
/** Something about the feeds or the chain that is out of the ordinary. */
export type Happened = {
  readonly type: 'happened'
  readonly what: string
  readonly at: number
  readonly by: number
}

/** Counted since the start of the node. */
export type Histogram = {
  /** Upper bounds in seconds, ascending; what is above the last one is in no bucket. */
  readonly bounds: readonly number[]
  /** How many are at most the bound. */
  readonly counts: readonly number[]
  readonly count: number
  /** Seconds. */
  readonly sum: number
}
export type Counts = Readonly<Record<string, number>>

/** Once a second. */
export type Figures = {
  readonly type: 'figures'
  readonly at: number
  readonly heads: Counts
  /** Since the newest publish, in milliseconds. */
  readonly ageMs: number
  readonly status: 'ready' | 'degraded' | 'unready'
  readonly reasons: readonly string[]
  /** The txpool. */
  readonly waiting: Counts
  readonly publish: Histogram
  readonly execute: Histogram
  /** From when a transaction was taken to when it was shown, and from there to its canonical block; over restarts. */
  readonly shown: Histogram
  readonly sealed: Histogram
  readonly promises: Counts
  /** Only on the admin port. */
  readonly inside?: Inside | undefined
}

export type Inside = {
  /** By method. */
  readonly calls: Readonly<Record<string, Histogram>>
  /** By method, with a code that is not 0. */
  readonly errors: Counts
  /** By code. */
  readonly codes: Counts
  /** Codes of the errors by which a bound is met. */
  readonly boundCodes: Readonly<Record<'limited' | 'timeout', number>>
  /** By lane. */
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
  /** As the node has them for /readyz; names without what may be a key. */
  readonly upstreams: readonly Readonly<Record<string, unknown>>[]
  readonly feeds: readonly Readonly<Record<string, unknown>>[]
}

export type LiveMessage =
  | Hello
  | FlashblockTold
  | FlashblockRemoved
  | BlockSealed
  | Happened
  | Figures
