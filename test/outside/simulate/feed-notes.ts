/** What each feed has sent, as far as it says what another feed may not take back. */
import { encodePacket } from '../../../engine/flashblocks/codec.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import type { WriterEvent } from '../../../engine/sources/writer/types.ts'
import { latin1 } from '../../../engine/state/words.ts'
import type { TrueBlock, TrueChain } from './chain.ts'
import { Mismatch } from './shown.ts'

type Sent = {
  newest: number
  newsAtMs: number
  first: First | undefined
  /** Indices that came as the sequencer wrote them. */
  readonly right: Set<number>
}
/** Of its index 0: the height, and its place among all that the feed has begun. */
type First = { readonly number: bigint; readonly order: number }
type Notes = {
  isConnected: boolean
  readonly payloads: Map<string, Sent>
  /** Of its first flashblocks what tells their blocks apart: the id may be a wrong one. */
  readonly begun: Set<string>
}

export class FeedNotes {
  readonly #chain: TrueChain
  readonly #cadenceMs: number
  readonly #feeds = new Map<number, Notes>()
  #firsts = 0

  constructor(chain: TrueChain, cadenceMs: number) {
    this.#chain = chain
    this.#cadenceMs = cadenceMs
  }

  /** Of a process that is gone. */
  forget(): void {
    this.#feeds.clear()
  }

  note(event: WriterEvent, nowMs: number): void {
    if (event.type === 'feed') this.#of(event.feed).isConnected = event.isConnected
    if (event.type !== 'packet' || event.packet.message.type === 'end') return
    const { feed, message } = event.packet
    const { payloads, begun } = this.#of(feed)
    const sent = sentOf(payloads, message.payloadId)
    if (message.base !== undefined) {
      begun.add(latin1(message.base.prevRandao))
      sent.first ??= { number: message.base.blockNumber, order: ++this.#firsts }
    }
    // What names another height is nothing of this block.
    const height = message.blockNumber ?? sent.first?.number
    const isNewIndex = message.index > sent.newest && height === sent.first?.number
    // Wrong ones that came before take nothing from a right one.
    const isNewRight = !sent.right.has(message.index) && this.#isRight(message)
    if (isNewRight) sent.right.add(message.index)
    if (isNewIndex) sent.newest = message.index
    if (isNewIndex || isNewRight) sent.newsAtMs = nowMs
  }

  /** It is what the sequencer wrote, to the last field. */
  #isRight(message: Flashblock): boolean {
    const part = this.#chain.payloads.get(message.payloadId)?.parts[message.index]
    if (part === undefined) return false
    const bytes = encodePacket(message, 'plain')
    return [part.message, part.subblock].some((one) =>
      equalBytes(encodePacket(one, 'plain'), bytes),
    )
  }

  /** @param taken what stands in its place; undefined: nothing does, as what was begun instead was wrong */
  checkDrop(block: TrueBlock, taken: TrueBlock | undefined, nowMs: number): void {
    const begunBy = taken?.header.mixHash
    const owners = [...this.#feeds.values()].flatMap(({ isConnected, payloads, begun }) => {
      const sent = payloads.get(block.payloadId)
      const first = sent?.first
      if (sent === undefined || first === undefined) return []
      const hasBegunOther = [...payloads.values()].some(
        (other) => other.first !== undefined && isInsteadOf(other.first, first),
      )
      const hasSentOther = begunBy === undefined ? hasBegunOther : begun.has(latin1(begunBy))
      const isSilent = nowMs - sent.newsAtMs >= this.#cadenceMs
      return [!isConnected || hasSentOther || isSilent]
    })
    if (owners.length > 0 && !owners.includes(true))
      throw new Mismatch(
        `block ${block.number} of ${block.payloadId} was dropped for another feed's ${taken?.payloadId}`,
      )
  }

  #of(feed: number): Notes {
    const known = this.#feeds.get(feed)
    if (known !== undefined) return known
    const notes: Notes = { isConnected: false, payloads: new Map(), begun: new Set() }
    this.#feeds.set(feed, notes)
    return notes
  }
}

function sentOf(payloads: Map<string, Sent>, payloadId: string): Sent {
  const known = payloads.get(payloadId)
  if (known !== undefined) return known
  const sent = { newest: -1, newsAtMs: 0, first: undefined, right: new Set<number>() }
  payloads.set(payloadId, sent)
  return sent
}

const isInsteadOf = (other: First, first: First): boolean =>
  other.order > first.order && other.number <= first.number
