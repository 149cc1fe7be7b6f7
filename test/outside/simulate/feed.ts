/** A simulated feed: its messages come late, twice, out of order, changed, cut, or not at all. */
import { decodePacket, encodePacket } from '../../../engine/flashblocks/codec.ts'
import type { FeedMessage, Flashblock, FlashblockBase } from '../../../engine/flashblocks/types.ts'
import { checksum } from '../../../engine/primitives/checksum.ts'
import type { FeedPacket } from '../../../engine/sources/writer/types.ts'
import type { TruePart } from './chain.ts'
import type { VirtualClock } from './clock.ts'
import { mayChange } from './covered.ts'
import { mutated, type Path } from './mutate.ts'
import type { Random } from './random.ts'

/** The form in which a feed sends a payload. It may send both forms, one after the other. */
export const FEED_FORMS = ['flashblocks', 'subblocks', 'both'] as const
export type FeedForm = (typeof FEED_FORMS)[number]

/** The probabilities for each message. */
export type FeedFaults = {
  readonly loss: number
  readonly copies: number
  readonly overtaken: number
  readonly mutations: number
  readonly cuts: number
  /** The cut comes at the last flashblock of a block, and the feed reconnects soon. */
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

/** A listener disappears with its process. */
export interface FeedListener {
  packet(packet: FeedPacket): void
  feed(feed: number, isConnected: boolean): void
  refused(feed: number): void
}

export class Feed {
  faults: FeedFaults
  readonly form: FeedForm
  readonly #at: number
  readonly #clock: VirtualClock
  readonly #random: Random
  /**
   * The stream decides when an index 0 has a wrong height. It is separate, so that no other draw
   * changes.
   */
  readonly #heights: Random
  /** Two feeds may write the same message in different forms. */
  readonly #form: bigint
  readonly #baseMs: number
  readonly #endsComeLast: boolean
  readonly #hasRefunds: boolean
  /** The latest arrival of its flashblocks. */
  #newestMs = 0
  #listener: FeedListener | undefined
  #isConnected = false
  /** The number of the connection; messages of an ended connection are lost. */
  #connection = 0
  #silentUntilMs = 0

  constructor(
    at: number,
    options: {
      readonly clock: VirtualClock
      readonly random: Random
      readonly heights: Random
      readonly faults: FeedFaults
      readonly form: FeedForm
      /** An End never overtakes a flashblock. */
      readonly endsComeLast: boolean
      /** Some flashblocks of the chain state refunds. */
      readonly hasRefunds: boolean
    },
  ) {
    this.#at = at
    this.#clock = options.clock
    this.#random = options.random
    this.#heights = options.heights
    this.faults = options.faults
    this.form = options.form
    this.#endsComeLast = options.endsComeLast
    this.#hasRefunds = options.hasRefunds
    this.#form = BigInt(options.random.below(2) * at)
    this.#baseMs = options.random.between(1, 60)
  }

  /** Sets the listener of a started process, or none after its end. */
  listen(listener: FeedListener | undefined): void {
    this.#listener = listener
    this.#connection++
    this.#isConnected = false
    if (listener !== undefined) this.#connectAfter(this.#random.between(1, 200))
  }

  /** Ends all faults. */
  mend(): void {
    this.faults = NO_FAULTS
    this.#silentUntilMs = 0
  }

  sendsSubblocks(payloadId: string): boolean {
    return this.form === 'both' ? BigInt(payloadId) % 2n === 0n : this.form === 'subblocks'
  }

  /**
   * Sends a flashblock.
   * @param isLast whether it is the last one of its block
   */
  sendPart({ message, subblock }: TruePart, isLast: boolean): void {
    this.#send(this.sendsSubblocks(message.payloadId) ? subblock : message, isLast)
  }

  /** Sends an End, which subblocks do not have. */
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
    if (message.type !== 'end' && message.base !== undefined && this.#heights.chance(mutations / 4))
      this.#deliver(wireOf(ofNextHeight(message, message.base)), this.#heights.between(5, 1_200))
    if (random.chance(mutations)) {
      const isChanged = (path: Path) => mayChange(message, path, this.#hasRefunds)
      const laterMs = random.chance(0.5) ? random.between(5, 800) : 0
      this.#deliver(spoilt(wire, { random, isChanged }), delayMs + laterMs)
      // The changed message comes instead of the right one, before it, or after it.
      if (random.chance(0.5)) return
    }
    const lateMs = random.chance(overtaken) ? random.between(30, 600) : random.below(5)
    this.#deliver(wire, Math.max(delayMs + lateMs, this.#minMs(message)))
    if (message.type !== 'end')
      this.#newestMs = Math.max(this.#newestMs, this.#clock.now() + delayMs + lateMs)
    if (random.chance(copies)) this.#deliver(wire, delayMs + random.below(1_500))
  }

  /** Gives the minimum delay of a message that is sent now. */
  #minMs({ type }: FeedMessage): number {
    return type === 'end' && this.#endsComeLast ? this.#newestMs - this.#clock.now() : 0
  }

  #deliver({ packet, bytes }: Wire, ms: number): void {
    const connection = this.#connection
    this.#clock.after(ms, () => {
      if (connection !== this.#connection) return
      if (packet === undefined) this.#listener?.refused(this.#at)
      else
        this.#listener?.packet({
          feed: this.#at,
          message: packet,
          digest: checksum(bytes) ^ this.#form,
          receivedAtMs: this.#clock.now(),
        })
    })
  }

  /**
   * Cuts the connection.
   * @param maxMs until the reconnect; by default mostly short
   */
  #cut(maxMs?: number): void {
    if (!this.#isConnected) return
    this.#connection++
    this.#isConnected = false
    this.#listener?.feed(this.#at, false)
    this.#connectAfter(this.#random.between(20, maxMs ?? (this.#random.chance(0.5) ? 400 : 3_000)))
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

/** Makes a payload of another builder with the next height, whose parent is a grandparent. */
const ofNextHeight = (message: Flashblock, base: FlashblockBase): Flashblock => ({
  ...message,
  payloadId: `0x${(BigInt(message.payloadId) ^ 0x77n).toString(16).padStart(16, '0')}`,
  blockNumber: undefined,
  base: { ...base, blockNumber: base.blockNumber + 1n },
})

/** `packet` is the decoder's result for the bytes; undefined: the decoder refuses them. */
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
