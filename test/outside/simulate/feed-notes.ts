/** What each feed has sent, as far as it says what another feed may not take back. */
import type { WriterEvent } from '../../../engine/sources/writer/types.ts'
import { latin1 } from '../../../engine/state/words.ts'
import type { TrueBlock } from './chain.ts'
import { Mismatch } from './shown.ts'

type Sent = { newest: number; newsAtMs: number; first: First | undefined }
/** Of its index 0: the height, and its place among all that the feed has begun. */
type First = { readonly number: bigint; readonly order: number }
type Notes = {
  isConnected: boolean
  readonly payloads: Map<string, Sent>
  /** Hashes that its first flashblocks give their blocks: the id may be a wrong one. */
  readonly begun: Set<string>
}

export class FeedNotes {
  readonly #cadenceMs: number
  readonly #feeds = new Map<number, Notes>()
  #firsts = 0

  constructor(cadenceMs: number) {
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
    const sent = payloads.get(message.payloadId) ?? { newest: -1, newsAtMs: 0, first: undefined }
    payloads.set(message.payloadId, sent)
    if (message.base !== undefined) {
      begun.add(latin1(message.delta.blockHash))
      sent.first ??= { number: message.base.blockNumber, order: ++this.#firsts }
    }
    // What names another height is nothing of this block.
    const height = message.blockNumber ?? sent.first?.number
    if (message.index <= sent.newest || height !== sent.first?.number) return
    sent.newest = message.index
    sent.newsAtMs = nowMs
  }

  /** @param taken what stands in its place; undefined: nothing does, as what was begun instead was wrong */
  checkDrop(block: TrueBlock, taken: TrueBlock | undefined, nowMs: number): void {
    const moment = taken?.parts[0]?.message.delta.blockHash
    const owners = [...this.#feeds.values()].flatMap(({ isConnected, payloads, begun }) => {
      const sent = payloads.get(block.payloadId)
      const first = sent?.first
      if (sent === undefined || first === undefined) return []
      const hasBegunOther = [...payloads.values()].some(
        (other) => other.first !== undefined && isInsteadOf(other.first, first),
      )
      const hasSentOther = moment === undefined ? hasBegunOther : begun.has(latin1(moment))
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

const isInsteadOf = (other: First, first: First): boolean =>
  other.order > first.order && other.number <= first.number
