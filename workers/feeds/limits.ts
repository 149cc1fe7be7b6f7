/** The bounds of one feed, in one place. A feed that goes beyond them harms nobody but itself. */
import type { AccessListBounds } from '../../engine/flashblocks/access-list.ts'
import { PACKET_BOUNDS, type PacketBounds } from '../../engine/flashblocks/packed.ts'

type Bound = {
  readonly value: number
  readonly unit: 'bytes' | 'ms' | 'items'
  readonly text: string
}
const bound = (value: number, unit: Bound['unit'], text: string): Bound => ({ value, unit, text })

export type FeedLimits = {
  readonly packet: PacketBounds
  /**
   * Of a second, in the long run, and of a burst: beyond it the feed is not read until that much time has passed. `jsonBytes` are those
   * that come out of decompression.
   */
  readonly wireBytes: Rate
  readonly jsonBytes: Rate
  readonly decodeMs: Rate
  /** Messages, pings and pongs: beyond the burst the connection is closed for `floodRestMs`. A replay of what was missed is a burst. */
  readonly frames: Rate
  readonly floodRestMs: number
  /** Milliseconds to inflate one packet. */
  readonly packetMs: number
  /** Frames, and bytes that they have in memory, that the writer has not taken: beyond them the feed is not read. */
  readonly heldFrames: number
  readonly heldBytes: number
  /** Bounds of the access list beside a flashblock. */
  readonly accessList: AccessListBounds
  /** From the start of a connection until it is open. */
  readonly connectMs: number
  readonly pingMs: number
  /** Without a byte from the peer, which is asked every `pingMs`. */
  readonly pongMs: number
  /** Without a frame while canonical moves; three block times where that is longer. */
  readonly silentMs: number
  /** Between two connections: from the first doubled to the last, of which chance takes up to half away. */
  readonly leastRetryMs: number
  readonly mostRetryMs: number
  /** Between two connections at most, for so long after the loss of one that brought frames: a sequencer that restarts is soon back. */
  readonly goodRetryMs: number
  readonly goodMs: number
  /** Connections that the peer accepts and then ends: beyond them each waits `mostRetryMs`. */
  readonly connects: Rate
  /** From the end of its thread to the next one: from the first doubled to the last; one that has lived so long begins anew. */
  readonly leastReplaceMs: number
  readonly mostReplaceMs: number
  /** Between two lines of the log about one kind of trouble. */
  readonly sampleMs: number
  /** Between two reports of counts and status. */
  readonly beatMs: number
}
export type Rate = { readonly perSecond: number; readonly burst: number }

/**
 * What an operator may set of them: each is a flag of `follow`, `--<name>`. The largest honest frame needs each of the bytes once, and less
 * than half a second. A feed has 6 frames a second and about 100 kB on X Layer.
 */
export const FEED_BOUNDS = {
  feedWireBytes: bound(32 << 20, 'bytes', 'of one feed, in a second; twice that at once'),
  feedJsonBytes: bound(32 << 20, 'bytes', 'that come out of decompression, in the same way'),
  feedDecodeMs: bound(500, 'ms', 'of decoding one feed, in a second; four times that at once'),
  feedFrames: bound(200, 'items', 'messages of one feed, in a second'),
  feedBurst: bound(2_000, 'items', 'messages at once: beyond it the feed is closed for a minute'),
  feedHeldFrames: bound(512, 'items', 'frames of one feed that wait for their execution'),
  feedHeldBytes: bound(64 << 20, 'bytes', 'of these frames'),
  feedAccessBytes: bound(1 << 20, 'bytes', 'of the access list beside a flashblock'),
  feedAccessItems: bound(10_000, 'items', 'accounts and slots of it that are read ahead'),
} as const satisfies Readonly<Record<string, Bound>>

export type FeedBounds = { readonly [K in keyof typeof FEED_BOUNDS]: number }

/** What is not said is as FEED_BOUNDS has it. */
export function feedLimitsOf(given: Partial<FeedBounds>): FeedLimits {
  const of = (name: keyof FeedBounds): number => given[name] ?? FEED_BOUNDS[name].value
  const rate = (name: keyof FeedBounds, times: number): Rate => ({
    perSecond: of(name),
    burst: times * of(name),
  })
  return {
    packet: PACKET_BOUNDS,
    wireBytes: rate('feedWireBytes', 2),
    jsonBytes: rate('feedJsonBytes', 2),
    decodeMs: rate('feedDecodeMs', 4),
    frames: { perSecond: of('feedFrames'), burst: of('feedBurst') },
    floodRestMs: 60_000,
    packetMs: 1_000,
    heldFrames: of('feedHeldFrames'),
    heldBytes: of('feedHeldBytes'),
    accessList: { bytes: of('feedAccessBytes'), items: of('feedAccessItems') },
    connectMs: 5_000,
    // As rollup-boost sends them.
    pingMs: 500,
    pongMs: 1_500,
    silentMs: 3_000,
    leastRetryMs: 200,
    mostRetryMs: 10_000,
    goodRetryMs: 1_000,
    goodMs: 60_000,
    connects: { perSecond: 0.1, burst: 10 },
    leastReplaceMs: 1_000,
    mostReplaceMs: 60_000,
    sampleMs: 10_000,
    beatMs: 1_000,
  }
}

export const FEED_LIMITS: FeedLimits = feedLimitsOf({})

/** Threads that one node starts for feeds. */
export const MOST_FEEDS = 8
