/**
 * Queue of events for the writer. Responses of the persistence thread come first, then canonical
 * blocks, then feeds. Feeds have limits and may skip packets.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { sizeOf } from './reorder-buffer.ts'
import type { FeedPacket, WriterEvent } from './types.ts'

export type MailboxLimits = {
  /** Packets of each feed. */
  readonly packets: number
  /** Bytes in memory of each feed's packets. */
  readonly packetBytes: number
}
export const MAILBOX_LIMITS: MailboxLimits = { packets: 1_024, packetBytes: 64 * 1024 * 1024 }

/** A packet of a feed, or a change of its connection, or a loss of its packets. */
type FeedEvent = WriterEvent & { readonly type: 'packet' | 'feed' }

export class Mailbox {
  readonly #limits: MailboxLimits
  readonly #urgent: WriterEvent[] = []
  readonly #upstreamBlocks: WriterEvent[] = []
  /** Events of each feed, in the order of arrival. */
  #feeds: FeedEvent[] = []
  /** Sizes by feed. */
  readonly #sizes = new Map<number, { packets: number; bytes: number }>()
  #skipped = 0

  constructor(limits: MailboxLimits = MAILBOX_LIMITS) {
    this.#limits = limits
  }

  /**
   * Adds an event. Packets beyond the limit drop the oldest of their feed, and an event reports the
   * loss.
   */
  push(event: WriterEvent): void {
    // Waiting canonical blocks continue the chain that the resync replaces.
    if (event.type === 'begin') this.#upstreamBlocks.length = 0
    if (event.type === 'sealed') this.#upstreamBlocks.push(event)
    else if (event.type === 'feed' && this.#isWaiting(event.feed)) this.#feeds.push(event)
    else if (event.type !== 'packet') this.#urgent.push(event)
    else {
      const { packet } = event
      this.#feeds.push(event)
      this.#count(packet, 1)
      while (this.#isTooMuch(packet.feed)) this.#dropBefore(packet.feed, 1)
    }
  }

  /**
   * Returns the next event. A feed that is more than a block behind skips to its newest index 0
   * with a known parent.
   * @param isKnown whether a parent hash is that of a finished block
   */
  next(isKnown: (parentHash: Bytes) => boolean): WriterEvent | undefined {
    const first = this.#urgent.shift() ?? this.#upstreamBlocks.shift()
    if (first !== undefined) return first
    for (const feed of new Set(this.#feeds.map(feedOf))) this.#skip(feed, isKnown)
    const event = this.#feeds.shift()
    if (event?.type === 'packet') this.#count(event.packet, -1)
    return event
  }

  /** Packets skipped since the last call. */
  takeSkipped(): number {
    const skipped = this.#skipped
    this.#skipped = 0
    return skipped
  }

  get size(): number {
    return this.#urgent.length + this.#upstreamBlocks.length + this.#feeds.length
  }

  /** Whether packets of the feed wait. A change of its connection comes after them. */
  #isWaiting(feed: number): boolean {
    return this.#feeds.some((event) => feedOf(event) === feed)
  }

  #packetsOf(feed: number): readonly FeedPacket[] {
    return this.#feeds.flatMap((event) =>
      event.type === 'packet' && event.packet.feed === feed ? [event.packet] : [],
    )
  }

  #skip(feed: number, isKnown: (parentHash: Bytes) => boolean): void {
    const starts = this.#packetsOf(feed).flatMap(({ message }, at) =>
      message.type === 'flashblock' && message.base !== undefined
        ? [{ at, parentHash: message.base.parentHash }]
        : [],
    )
    const newest =
      starts.length > 1 ? starts.findLast(({ parentHash }) => isKnown(parentHash)) : undefined
    if (newest !== undefined) this.#dropBefore(feed, newest.at)
  }

  /** Drops the oldest packets of a feed. One event in their place reports the loss. */
  #dropBefore(feed: number, count: number): void {
    const dropped = this.#packetsOf(feed).slice(0, count)
    for (const packet of dropped) this.#count(packet, -1)
    const last = dropped.at(-1)
    const isDropped = new Set(dropped)
    let isRecorded = false
    this.#feeds = this.#feeds.flatMap((event): readonly FeedEvent[] => {
      if (feedOf(event) !== feed) return [event]
      if (event.type === 'packet' && event.packet === last) {
        const loss = { type: 'feed', feed, isConnected: true } as const
        return isRecorded ? [] : [loss]
      }
      if (event.type === 'packet' && isDropped.has(event.packet)) return []
      isRecorded = event.type === 'feed' && event.isConnected && event.isResumed !== true
      return [event]
    })
    this.#skipped += dropped.length
  }

  #isTooMuch(feed: number): boolean {
    const { packets, bytes } = this.#sizes.get(feed)!
    return packets > this.#limits.packets || (bytes > this.#limits.packetBytes && packets > 1)
  }

  #count(packet: FeedPacket, sign: 1 | -1): void {
    const retained = this.#sizes.get(packet.feed) ?? { packets: 0, bytes: 0 }
    retained.packets += sign
    retained.bytes += sign * sizeOf(packet)
    this.#sizes.set(packet.feed, retained)
  }
}

const feedOf = (event: FeedEvent): number =>
  event.type === 'packet' ? event.packet.feed : event.feed
