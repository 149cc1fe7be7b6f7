/** Limits of one feed. A feed that exceeds them harms only itself. */
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
   * Rates with a burst: above them the feed is not read until enough time has passed. `jsonBytes`
   * counts bytes after decompression.
   */
  readonly wireBytes: Rate
  readonly jsonBytes: Rate
  readonly decodeMs: Rate
  /**
   * Counts messages, pings and pongs; a replay of missed frames is a burst. Above the burst the
   * connection closes for `floodBackoffMs`.
   */
  readonly frames: Rate
  readonly floodBackoffMs: number
  /** Timeout in milliseconds for decompressing one packet. */
  readonly packetMs: number
  /**
   * Frames that the writer has yet to take, and their bytes in memory; at the limit the feed is not
   * read.
   */
  readonly heldFrames: number
  readonly heldBytes: number
  readonly accessList: AccessListBounds
  readonly connectMs: number
  readonly pingMs: number
  /** Timeout without a byte from the peer, which is pinged every `pingMs`. */
  readonly pongMs: number
  /** Timeout without a frame while the canonical head moves; it is at least three block times. */
  readonly silentMs: number
  /**
   * Backoff between two connections: it doubles up to the maximum, and up to half of it is random.
   */
  readonly minRetryMs: number
  readonly maxRetryMs: number
  /**
   * Maximum backoff in the `goodMs` after the loss of a connection with frames, because a restarted
   * sequencer is soon back.
   */
  readonly goodRetryMs: number
  readonly goodMs: number
  /**
   * Rate of connections that the peer accepts and then closes; above it the backoff is
   * `maxRetryMs`.
   */
  readonly connects: Rate
  /**
   * Backoff before a failed thread is replaced: it doubles up to the maximum. A thread that lived
   * longer than the maximum resets it.
   */
  readonly minReplaceMs: number
  readonly maxReplaceMs: number
  /** Minimum time between two log lines of one kind. */
  readonly sampleMs: number
  /** Time between two reports of counts and status. */
  readonly beatMs: number
}
export type Rate = { readonly perSecond: number; readonly burst: number }

/**
 * Limits that an operator may set; each is a flag `--<name>` of `follow`.
 * The largest honest frame needs each byte limit once and less than half a second. X Layer's feed
 * has 6 frames and about 100 kB a second.
 */
export const FEED_BOUNDS = {
  feedWireBytes: bound(
    32 << 20,
    'bytes',
    'received bytes of one feed per second; a burst may have twice as many',
  ),
  feedJsonBytes: bound(
    32 << 20,
    'bytes',
    'decompressed bytes of one feed per second; a burst may have twice as many',
  ),
  feedDecodeMs: bound(
    500,
    'ms',
    'time to decode one feed, per second; a burst may take four times as long',
  ),
  feedFrames: bound(200, 'items', 'messages of one feed per second'),
  feedBurst: bound(
    2_000,
    'items',
    'messages of one feed in a burst; above this the feed is closed for a minute',
  ),
  feedHeldFrames: bound(512, 'items', 'frames of one feed that wait for execution'),
  feedHeldBytes: bound(
    64 << 20,
    'bytes',
    'bytes of the frames of one feed that wait for execution',
  ),
  feedAccessBytes: bound(1 << 20, 'bytes', 'size of the access list that comes with a flashblock'),
  feedAccessItems: bound(
    10_000,
    'items',
    'accounts and slots of such an access list that are read ahead',
  ),
} as const satisfies Readonly<Record<string, Bound>>

export type FeedBounds = { readonly [K in keyof typeof FEED_BOUNDS]: number }

/** Makes the limits of a feed; omitted bounds have the values of FEED_BOUNDS. */
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
    floodBackoffMs: 60_000,
    packetMs: 1_000,
    heldFrames: of('feedHeldFrames'),
    heldBytes: of('feedHeldBytes'),
    accessList: { bytes: of('feedAccessBytes'), items: of('feedAccessItems') },
    connectMs: 5_000,
    // The interval is that of rollup-boost.
    pingMs: 500,
    pongMs: 1_500,
    silentMs: 3_000,
    minRetryMs: 200,
    maxRetryMs: 10_000,
    goodRetryMs: 1_000,
    goodMs: 60_000,
    connects: { perSecond: 0.1, burst: 10 },
    minReplaceMs: 1_000,
    maxReplaceMs: 60_000,
    sampleMs: 10_000,
    beatMs: 1_000,
  }
}

export const FEED_LIMITS: FeedLimits = feedLimitsOf({})

export const MAX_FEEDS = 8
