/** One feed as the node gets it: late, twice, in another order, changed, cut, or not at all. */
import { decodePacket, encodePacket } from '../../../engine/flashblocks/codec.ts'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import { checksum } from '../../../engine/primitives/checksum.ts'
import type { FeedPacket } from '../../../engine/sources/writer/types.ts'
import type { TruePart } from './chain.ts'
import type { VirtualClock } from './clock.ts'
import { mayChange } from './covered.ts'
import { mutated, type Path } from './mutate.ts'
import type { Random } from './random.ts'

/** What a feed sends of a payload. It may have both forms, one after the other. */
export const FEED_FORMS = ['flashblocks', 'subblocks', 'both'] as const
export type FeedForm = (typeof FEED_FORMS)[number]

/** Chances for each message. */
export type FeedFaults = {
  readonly loss: number
  readonly copies: number
  readonly overtaken: number
  readonly mutations: number
  readonly cuts: number
  /** Of the last flashblock of a block; it is connected again soon. */
  readonly lastCuts: number
  readonly silence: number
}
export const NO_FAULTS: FeedFaults = {
  loss: 0,
  copies: 0,
  overtaken: 0,
  mutations: 0,
  cuts: 0,
  lastCuts: 0,
  silence: 0,
}

/** Who listens: gone when its process is. */
export interface FeedListener {
  packet(packet: FeedPacket): void
  feed(feed: number, isConnected: boolean): void
  refused(): void
}

export class Feed {
  faults: FeedFaults
  readonly form: FeedForm
  readonly #at: number
  readonly #clock: VirtualClock
  readonly #random: Random
  /** Two feeds need not write the same in the same form. */
  readonly #form: bigint
  readonly #baseMs: number
  readonly #endsComeLast: boolean
  readonly #hasRefunds: boolean
  /** When the latest of its flashblocks comes. */
  #newestMs = 0
  #listener: FeedListener | undefined
  #isConnected = false
  /** Of the connection: what was on its way when it ended is lost. */
  #connection = 0
  #silentUntilMs = 0

  constructor(
    at: number,
    options: {
      readonly clock: VirtualClock
      readonly random: Random
      readonly faults: FeedFaults
      readonly form: FeedForm
      /** No End overtakes a flashblock. */
      readonly endsComeLast: boolean
      /** Some flashblocks of its chain state refunds. */
      readonly hasRefunds: boolean
    },
  ) {
    this.#at = at
    this.#clock = options.clock
    this.#random = options.random
    this.faults = options.faults
    this.form = options.form
    this.#endsComeLast = options.endsComeLast
    this.#hasRefunds = options.hasRefunds
    this.#form = BigInt(options.random.below(2) * at)
    this.#baseMs = options.random.between(1, 60)
  }

  /** A process has started, or is gone. */
  listen(listener: FeedListener | undefined): void {
    this.#listener = listener
    this.#connection++
    this.#isConnected = false
    if (listener !== undefined) this.#connectAfter(this.#random.between(1, 200))
  }

  /** It is as it should be from now on. */
  mend(): void {
    this.faults = NO_FAULTS
    this.#silentUntilMs = 0
  }

  sendsSubblocks(payloadId: string): boolean {
    return this.form === 'both' ? BigInt(payloadId) % 2n === 0n : this.form === 'subblocks'
  }

  /** @param isLast of a block's flashblocks */
  sendPart({ message, subblock }: TruePart, isLast: boolean): void {
    this.#send(this.sendsSubblocks(message.payloadId) ? subblock : message, isLast)
  }

  /** Subblocks have no end. */
  sendEnd(payloadId: string): void {
    if (!this.sendsSubblocks(payloadId)) this.#send({ type: 'end', payloadId }, false)
  }

  #send(message: FeedMessage, isLast: boolean): void {
    const random = this.#random
    const { loss, copies, overtaken, mutations, cuts, lastCuts, silence } = this.faults
    if (random.chance(cuts)) this.#cut()
    if (isLast && lastCuts > 0 && random.chance(lastCuts)) this.#cut(120)
    if (random.chance(silence)) this.#silentUntilMs = this.#clock.now() + random.between(300, 4_000)
    const isLost = random.chance(loss) || this.#clock.now() < this.#silentUntilMs
    if (!this.#isConnected || isLost) return
    const wire = wireOf(message)
    const delayMs = this.#baseMs + random.below(20)
    if (random.chance(mutations)) {
      const isChanged = (path: Path) => mayChange(message, path, this.#hasRefunds)
      const laterMs = random.chance(0.5) ? random.between(5, 800) : 0
      this.#deliver(spoilt(wire, { random, isChanged }), delayMs + laterMs)
      // The changed message comes instead of what was sent, before it, or after it.
      if (random.chance(0.5)) return
    }
    const lateMs = random.chance(overtaken) ? random.between(30, 600) : random.below(5)
    this.#deliver(wire, Math.max(delayMs + lateMs, this.#leastMs(message)))
    if (message.type !== 'end')
      this.#newestMs = Math.max(this.#newestMs, this.#clock.now() + delayMs + lateMs)
    if (random.chance(copies)) this.#deliver(wire, delayMs + random.below(1_500))
  }

  /** Of what is sent now, from now on. */
  #leastMs({ type }: FeedMessage): number {
    return type === 'end' && this.#endsComeLast ? this.#newestMs - this.#clock.now() : 0
  }

  #deliver({ packet, bytes }: Wire, ms: number): void {
    const connection = this.#connection
    this.#clock.after(ms, () => {
      if (connection !== this.#connection) return
      if (packet === undefined) this.#listener?.refused()
      else
        this.#listener?.packet({
          feed: this.#at,
          message: packet,
          digest: checksum(bytes) ^ this.#form,
          receivedAtMs: this.#clock.now(),
        })
    })
  }

  /** @param mostMs until it is connected again; by default mostly soon */
  #cut(mostMs?: number): void {
    if (!this.#isConnected) return
    this.#connection++
    this.#isConnected = false
    this.#listener?.feed(this.#at, false)
    this.#connectAfter(this.#random.between(20, mostMs ?? (this.#random.chance(0.5) ? 400 : 3_000)))
  }

  #connectAfter(ms: number): void {
    const connection = ++this.#connection
    this.#clock.after(ms, () => {
      if (connection !== this.#connection || this.#listener === undefined) return
      this.#isConnected = true
      this.#listener.feed(this.#at, true)
    })
  }
}

/** `packet`: what the decoder makes of the bytes; undefined: it refuses them. */
type Wire = { readonly bytes: Uint8Array; readonly packet: FeedMessage | undefined }

const wires = new WeakMap<FeedMessage, Wire>()
function wireOf(message: FeedMessage): Wire {
  const known = wires.get(message)
  if (known !== undefined) return known
  const wire = decoded(encodePacket(message, 'plain'))
  wires.set(message, wire)
  return wire
}

function spoilt({ bytes }: Wire, how: Parameters<typeof mutated>[1]): Wire {
  const json = JSON.parse(Buffer.from(bytes).toString())
  return decoded(Buffer.from(JSON.stringify(mutated(json, how))))
}

function decoded(bytes: Uint8Array): Wire {
  const result = decodePacket(bytes)
  return { bytes, packet: 'message' in result ? result.message : undefined }
}
