/** What waits for the writer: the keeper's answers first, then canonical blocks, then the feed; the feed is bounded and may skip. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { FeedPacket, WriterEvent } from './types.ts'

export type MailboxLimits = {
  /** Packets of the feed. */
  readonly packets: number
  /** Their transactions' bytes. */
  readonly packetBytes: number
}
export const MAILBOX_LIMITS: MailboxLimits = { packets: 1_024, packetBytes: 64 * 1024 * 1024 }

export class Mailbox {
  readonly #limits: MailboxLimits
  readonly #urgent: WriterEvent[] = []
  readonly #sealed: WriterEvent[] = []
  #packets: FeedPacket[] = []
  #packetBytes = 0
  #skipped = 0

  constructor(limits: MailboxLimits = MAILBOX_LIMITS) {
    this.#limits = limits
  }

  /** Packets that do not fit push out the oldest: the sequence they belong to has a gap then, and says so. */
  push(event: WriterEvent): void {
    if (event.type === 'sealed') this.#sealed.push(event)
    else if (event.type !== 'packet') this.#urgent.push(event)
    else {
      this.#packets.push(event.packet)
      this.#packetBytes += sizeOf(event.packet)
      while (
        this.#packets.length > this.#limits.packets ||
        (this.#packetBytes > this.#limits.packetBytes && this.#packets.length > 1)
      )
        this.#drop(1)
    }
  }

  /**
   * The next event. More than a block behind, packets before the newest index 0 that can be begun at once are skipped; `isKnown`
   * tells of a parent hash whether it is the one of a finished block.
   */
  next(isKnown: (parentHash: Bytes) => boolean): WriterEvent | undefined {
    const first = this.#urgent.shift() ?? this.#sealed.shift()
    if (first !== undefined) return first
    const begins = this.#packets.flatMap(({ message }, at) =>
      message.type === 'flashblock' && message.base !== undefined
        ? [{ at, parentHash: message.base.parentHash }]
        : [],
    )
    if (begins.length > 1) {
      const newest = begins.findLast(({ parentHash }) => isKnown(parentHash))
      if (newest !== undefined) this.#drop(newest.at)
    }
    const packet = this.#packets[0]
    if (packet === undefined) return undefined
    this.#packets.shift()
    this.#packetBytes -= sizeOf(packet)
    return { type: 'packet', packet }
  }

  /** Packets skipped since the last call. */
  takeSkipped(): number {
    const skipped = this.#skipped
    this.#skipped = 0
    return skipped
  }

  get size(): number {
    return this.#urgent.length + this.#sealed.length + this.#packets.length
  }

  #drop(count: number): void {
    for (const packet of this.#packets.slice(0, count)) this.#packetBytes -= sizeOf(packet)
    this.#packets = this.#packets.slice(count)
    this.#skipped += count
  }
}

/** Bytes that a packet keeps in memory, about. */
function sizeOf({ message }: FeedPacket): number {
  if (message.type === 'end') return 100
  let bytes = 1_000
  for (const { length } of message.delta.transactions) bytes += length + 100
  return bytes
}
