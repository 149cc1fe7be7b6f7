/** The messages of each feed, as far as they decide what another feed may replace. */
import { encodePacket } from '../../../engine/flashblocks/codec.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import type { WriterEvent } from '../../../engine/sources/writer/types.ts'
import { latin1 } from '../../../engine/state/words.ts'
import type { TrueBlock, TrueChain } from './chain.ts'
import { Mismatch } from './visible.ts'

type Sent = {
  newest: number
  newsAtMs: number
  first: First | undefined
  /** The indices that came as the sequencer wrote them. */
  readonly right: Set<number>
}
/**
 * The first flashblock of a payload: its height, and its position among all payloads of the feed.
 */
type First = { readonly number: bigint; readonly order: number }
type History = {
  isConnected: boolean
  readonly payloads: Map<string, Sent>
  /**
   * Values of first flashblocks that distinguish their blocks, because the payload id may be wrong.
   */
  readonly started: Set<string>
}

export class FeedHistory {
  readonly #chain: TrueChain
  readonly #cadenceMs: number
  readonly #feeds = new Map<number, History>()
  #firsts = 0

  constructor(chain: TrueChain, cadenceMs: number) {
    this.#chain = chain
    this.#cadenceMs = cadenceMs
  }

  /** Forgets the feeds of a process that ended. */
  forget(): void {
    this.#feeds.clear()
  }

  record(event: WriterEvent, nowMs: number): void {
    if (event.type === 'feed') this.#of(event.feed).isConnected = event.isConnected
    if (event.type !== 'packet' || event.packet.message.type === 'end') return
    const { feed, message } = event.packet
    const { payloads, started } = this.#of(feed)
    const sent = sentOf(payloads, message.payloadId)
    if (message.base !== undefined) {
      started.add(latin1(message.base.prevRandao))
      sent.first ??= { number: message.base.blockNumber, order: ++this.#firsts }
    }
    // A message with another height does not belong to this block.
    const height = message.blockNumber ?? sent.first?.number
    const isNewIndex = message.index > sent.newest && height === sent.first?.number
    // Earlier wrong flashblocks do not devalue a right one.
    const isNewRight = !sent.right.has(message.index) && this.#isRight(message)
    if (isNewRight) sent.right.add(message.index)
    if (isNewIndex) sent.newest = message.index
    if (isNewIndex || isNewRight) sent.newsAtMs = nowMs
  }

  /** Whether the message is exactly what the sequencer wrote. */
  #isRight(message: Flashblock): boolean {
    const part = this.#chain.payloads.get(message.payloadId)?.parts[message.index]
    if (part === undefined) return false
    const bytes = encodePacket(message, 'plain')
    return [part.message, part.subblock].some((one) =>
      equalBytes(encodePacket(one, 'plain'), bytes),
    )
  }

  /**
   * Checks that a block could be dropped.
   * @param taken the block that replaced it; undefined: no block did, because the newly started one
   * was wrong
   */
  checkDrop(block: TrueBlock, taken: TrueBlock | undefined, nowMs: number): void {
    const startedBy = taken?.header.mixHash
    const connected = [...this.#feeds.values()].filter(({ isConnected }) => isConnected)
    const owners = [...this.#feeds.values()].flatMap(({ isConnected, payloads, started }) => {
      const sent = payloads.get(block.payloadId)
      const first = sent?.first
      if (sent === undefined || first === undefined) return []
      const hasStartedOther = [...payloads.values()].some(
        (other) => other.first !== undefined && isInsteadOf(other.first, first),
      )
      const hasSentOther =
        startedBy === undefined ? hasStartedOther : started.has(latin1(startedBy))
      const isSilent = nowMs - sent.newsAtMs >= this.#cadenceMs
      // The node drops a block with a wrong flashblock that no other feed can bring right.
      const isWrongForGood = !sent.right.has(sent.newest) && connected.length === 1
      return [!isConnected || hasSentOther || isSilent || isWrongForGood]
    })
    if (owners.length > 0 && !owners.includes(true))
      throw new Mismatch(
        `block ${block.number} of ${block.payloadId} was dropped for another feed's ${taken?.payloadId}`,
      )
  }

  #of(feed: number): History {
    const known = this.#feeds.get(feed)
    if (known !== undefined) return known
    const history: History = { isConnected: false, payloads: new Map(), started: new Set() }
    this.#feeds.set(feed, history)
    return history
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
