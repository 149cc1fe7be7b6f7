/** What waits for the writer: the keeper's answers first, then canonical blocks, then the feeds; each is bounded for itself and may skip. */
import type { Bytes } from '../../primitives/bytes.ts'
import { sizeOf } from './shelf.ts'
import type { FeedPacket, WriterEvent } from './types.ts'

export type MailboxLimits = {
  /** Packets of a feed. */
  readonly packets: number
  /** Their transactions' bytes. */
  readonly packetBytes: number
}
export const MAILBOX_LIMITS: MailboxLimits = { packets: 1_024, packetBytes: 64 * 1024 * 1024 }

/** A packet of a feed, or the news that the feed is lost or connected again. */
type FeedEvent = WriterEvent & { readonly type: 'packet' | 'feed' }

export class Mailbox {
  readonly #limits: MailboxLimits
  readonly #urgent: WriterEvent[] = []
  readonly #sealed: WriterEvent[] = []
  /** The events of each feed are in the order in which they came. */
  #feeds: FeedEvent[] = []
  /** By feed. */
  readonly #kept = new Map<number, { packets: number; bytes: number }>()
  #skipped = 0

  constructor(limits: MailboxLimits = MAILBOX_LIMITS) {
    this.#limits = limits
  }

  /** Packets that do not fit push out the oldest of the same feed: the sequence they belong to has a gap then, and says so. */
  push(event: WriterEvent): void {
    // What was to be the next block of another beginning.
    if (event.type === 'begin') this.#sealed.length = 0
    if (event.type === 'sealed') this.#sealed.push(event)
    else if (event.type === 'feed' && this.#isWaiting(event.feed)) this.#feeds.push(event)
    else if (event.type !== 'packet') this.#urgent.push(event)
    else {
      const { packet } = event
      this.#feeds.push(event)
      this.#note(packet, 1)
      while (this.#isTooMuch(packet.feed)) this.#dropBefore(packet.feed, 1)
    }
  }

  /**
   * The next event. More than a block behind, what a feed has sent before its newest index 0 that can be begun at once is skipped; `isKnown`
   * tells of a parent hash whether it is the one of a finished block.
   */
  next(isKnown: (parentHash: Bytes) => boolean): WriterEvent | undefined {
    const first = this.#urgent.shift() ?? this.#sealed.shift()
    if (first !== undefined) return first
    for (const feed of new Set(this.#feeds.map(feedOf))) this.#skip(feed, isKnown)
    const event = this.#feeds.shift()
    if (event?.type === 'packet') this.#note(event.packet, -1)
    return event
  }

  /** Packets skipped since the last call. */
  takeSkipped(): number {
    const skipped = this.#skipped
    this.#skipped = 0
    return skipped
  }

  get size(): number {
    return this.#urgent.length + this.#sealed.length + this.#feeds.length
  }

  /** A loss is heard after the packets that came before it. */
  #isWaiting(feed: number): boolean {
    return this.#feeds.some((event) => feedOf(event) === feed)
  }

  #packetsOf(feed: number): readonly FeedPacket[] {
    return this.#feeds.flatMap((event) =>
      event.type === 'packet' && event.packet.feed === feed ? [event.packet] : [],
    )
  }

  #skip(feed: number, isKnown: (parentHash: Bytes) => boolean): void {
    const begins = this.#packetsOf(feed).flatMap(({ message }, at) =>
      message.type === 'flashblock' && message.base !== undefined
        ? [{ at, parentHash: message.base.parentHash }]
        : [],
    )
    const newest =
      begins.length > 1 ? begins.findLast(({ parentHash }) => isKnown(parentHash)) : undefined
    if (newest !== undefined) this.#dropBefore(feed, newest.at)
  }

  /** The first `count` of a feed. */
  #dropBefore(feed: number, count: number): void {
    const dropped = this.#packetsOf(feed).slice(0, count)
    for (const packet of dropped) this.#note(packet, -1)
    const isDropped = new Set(dropped)
    this.#feeds = this.#feeds.filter(
      (event) => event.type !== 'packet' || !isDropped.has(event.packet),
    )
    this.#skipped += dropped.length
  }

  #isTooMuch(feed: number): boolean {
    const { packets, bytes } = this.#kept.get(feed)!
    return packets > this.#limits.packets || (bytes > this.#limits.packetBytes && packets > 1)
  }

  #note(packet: FeedPacket, sign: 1 | -1): void {
    const kept = this.#kept.get(packet.feed) ?? { packets: 0, bytes: 0 }
    kept.packets += sign
    kept.bytes += sign * sizeOf(packet)
    this.#kept.set(packet.feed, kept)
  }
}

const feedOf = (event: FeedEvent): number =>
  event.type === 'packet' ? event.packet.feed : event.feed
