/** Packets that wait, in order of arrival. Bounded for each feed: none pushes out what another one has sent. */
import type { FeedPacket } from './types.ts'

/** A packet as it was received, with what its feed had sent before it. */
export type Received = FeedPacket & {
  /** With an End: flashblocks that the feed has sent of the payload; undefined: something of it was lost. */
  readonly sent?: number | undefined
  /** With an index 0: the payload that the feed has sent before. */
  readonly before?: SentPayload | undefined
}
/** What a feed has sent of a payload. */
export type SentPayload = {
  readonly payloadId: string
  /** Flashblocks in a row from index 0. */
  readonly inRow: number
  /** Others of it may have been lost. */
  readonly hasHole: boolean
  /** Nothing tells how many there are, whatever the feed told of payloads in the other form. */
  readonly areSubblocks: boolean
}

/** What is known of a feed. */
export type FeedRun = {
  isConnected: boolean
  /** When it last sent something new of a block above canonical. */
  newsAtMs: number
  /** Digests of its newest flashblocks above canonical, oldest first: a repetition is no news. */
  readonly digests: bigint[]
  /** The newest payload that it has sent of. */
  payload: SentPayload | undefined
  /** Whether it tells the end of a payload, by End or target index. */
  tellsEnds: boolean
}

export type ShelfLimits = {
  /** Of each feed. */
  readonly packets: number
  /** Of each feed, in memory. */
  readonly bytes: number
}

export class Shelf {
  readonly #limits: ShelfLimits
  #packets: Received[] = []
  readonly #sizes = new WeakMap<Received, number>()

  constructor(limits: ShelfLimits) {
    this.#limits = limits
  }

  /** Gives the number of packets that went for it: whole payloads of the same feed, oldest first. A copy is not added. */
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

  /** Takes out those that fit. */
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

/** Bytes that a packet keeps in memory, about. */
export function sizeOf({ message, raw }: FeedPacket): number {
  const own = raw?.length ?? 0
  if (message.type === 'end') return own + 100
  let bytes = own + 1_000
  for (const { length } of message.delta.transactions) bytes += length + 100
  return bytes
}

/** An End says more from one feed than from another. */
const isCopy = (a: Received, b: Received): boolean =>
  a.digest === b.digest &&
  a.message.payloadId === b.message.payloadId &&
  a.message.type === b.message.type &&
  (a.message.type === 'end' || b.message.type === 'end'
    ? a.feed === b.feed
    : a.message.index === b.message.index)
