/**
 * Packets that wait, in order of arrival. Each feed has its own limit, so none displaces packets of
 * another feed.
 */
import type { FeedPacket } from './types.ts'

/** A packet as received, with what its feed had sent before. */
export type Received = FeedPacket & {
  /** For an End: flashblocks of the payload that the feed has sent; undefined: some were lost. */
  readonly sent?: number | undefined
  /**
   * For an index 0: the payload that the feed began before. undefined if another payload of unknown
   * height may have begun in between.
   */
  readonly before?: SentPayload | undefined
}
/** Flashblocks of one payload that a feed has sent. */
export type SentPayload = {
  readonly payloadId: string
  /** Without its index 0 and metadata the height of a payload is unknown. */
  readonly isHeightKnown: boolean
  /** Flashblocks in a row from index 0. */
  readonly inRow: number
  /** Other flashblocks of the payload may have been lost. */
  readonly hasHole: boolean
  /**
   * All are subblocks. Subblocks announce no count, even if the feed announces ends of other
   * payloads.
   */
  readonly areSubblocks: boolean
}

export type FeedRun = {
  isConnected: boolean
  /** Time of the feed's last new flashblock above canonical. */
  newsAtMs: number
  /** Digests of the newest flashblocks above canonical, oldest first. A repetition is no news. */
  readonly digests: bigint[]
  /** The newest payloads, in the order in which the feed began them. */
  payloads: readonly SentPayload[]
  /** Whether the feed announces the end of a payload, by End or target index. */
  announcesEnds: boolean
}

export type ReorderBufferLimits = {
  /** Limit for each feed. */
  readonly packets: number
  /** Limit for each feed, in memory. */
  readonly bytes: number
}

export class ReorderBuffer {
  readonly #limits: ReorderBufferLimits
  #packets: Received[] = []
  readonly #sizes = new WeakMap<Received, number>()

  constructor(limits: ReorderBufferLimits) {
    this.#limits = limits
  }

  /**
   * Adds a packet unless it is a copy. At the limit, whole payloads of the same feed are dropped,
   * oldest first.
   * @returns `dropped` is the number of dropped packets
   */
  add(packet: Received): { readonly isCopy: boolean; readonly dropped: number } {
    if (this.#packets.some((other) => isCopy(other, packet))) return { isCopy: true, dropped: 0 }
    this.#packets.push(packet)
    this.#sizes.set(packet, sizeOf(packet))
    let dropped = 0
    while (this.#isTooMuch(packet.feed)) dropped += this.#dropOldest(packet.feed)
    return { isCopy: false, dropped }
  }

  has(payloadId: string): boolean {
    return this.#packets.some(({ message }) => message.payloadId === payloadId)
  }

  get packets(): readonly Received[] {
    return this.#packets
  }

  get size(): number {
    return this.#packets.length
  }

  /** Removes and returns the packets that fit. */
  take(fits: (packet: Received, at: number) => boolean): readonly Received[] {
    const taken = this.#packets.filter(fits)
    if (taken.length > 0) this.#packets = this.#packets.filter((packet) => !taken.includes(packet))
    return taken
  }

  shift(): Received | undefined {
    return this.#packets.shift()
  }

  clear(): number {
    const { length } = this.#packets
    this.#packets = []
    return length
  }

  #isTooMuch(feed: number): boolean {
    const own = this.#packets.filter((packet) => packet.feed === feed)
    const bytes = own.reduce((sum, packet) => sum + this.#sizes.get(packet)!, 0)
    return own.length > this.#limits.packets || (own.length > 1 && bytes > this.#limits.bytes)
  }

  #dropOldest(feed: number): number {
    const first = this.#packets.find((packet) => packet.feed === feed)!.message.payloadId
    const isOfIt = (packet: Received) => packet.feed === feed && packet.message.payloadId === first
    return this.take(isOfIt).length
  }
}

/** Estimates the bytes of a packet in memory. */
export function sizeOf({ message, raw }: FeedPacket): number {
  const own = raw?.length ?? 0
  if (message.type === 'end') return own + 100
  let bytes = own + 1_000
  for (const { length } of message.delta.transactions) bytes += length + 100
  return bytes
}

/**
 * Whether two packets are equal. Ends of different feeds are not, because each counts its own
 * feed's flashblocks.
 */
const isCopy = (a: Received, b: Received): boolean =>
  a.digest === b.digest &&
  a.message.payloadId === b.message.payloadId &&
  a.message.type === b.message.type &&
  (a.message.type === 'end' || b.message.type === 'end'
    ? a.feed === b.feed
    : a.message.index === b.message.index)
