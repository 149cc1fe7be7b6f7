/** Subscribers of flashblocks on both endpoints. Each event goes to the channels of all kinds. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { type Channel, type Channels, createChannels } from './channels.ts'
import type { FlashblockEvent, Gap } from './emitted-flashblocks.ts'
import type { FlashblockFeed } from './flashblock-feed.ts'
import { envelopeBytes, type Subscriber } from './outbox.ts'
import { type FlashblockSubscription, gapMarker, replayed } from './since.ts'

type Options = {
  readonly feeds: Readonly<Record<Endpoint, FlashblockFeed>>
  readonly send: (subscriber: Subscriber, result: Bytes) => void
  /** Called after all results of an event are sent. */
  readonly flush: () => void
  /** Maximum bytes of a replay. */
  readonly maxBytes: number
}
/** A subscriber, and the sequence of the first flashblock whose removals it gets. */
type Listening = { readonly subscriber: Subscriber; readonly from: number }

export function createFlashblockSubscriptions(options: Options): {
  /**
   * Adds a subscriber.
   * @returns ends the subscription
   */
  add(subscriber: Subscriber, what: FlashblockSubscription): () => void
} {
  const of = {
    standard: createSide(options.feeds.standard, options),
    flashblocks: createSide(options.feeds.flashblocks, options),
  }
  return { add: (subscriber, what) => of[subscriber.client.endpoint].add(subscriber, what) }
}

function createSide(feed: FlashblockFeed, { send, flush, maxBytes }: Options) {
  const channels: Channels<Listening> = createChannels()
  const listening = new Set<Listening>()
  let stopListening: (() => void) | undefined

  const sendAdded = ({ subscriber }: Listening, result: Bytes) => send(subscriber, result)
  function onEvents(events: readonly FlashblockEvent[]): void {
    for (const [at, event] of events.entries())
      if (event.type === 'gap') {
        const next = events.slice(at).find((one) => one.type === 'added')?.flashblock
        const marker = gapMarker(event.after, next)
        for (const one of [...listening]) sendAdded(one, marker)
      } else emit(event)
    flush()
  }
  function emit(event: Exclude<FlashblockEvent, Gap>): void {
    const { sequence } = event.flashblock
    const sendRemoved = ({ subscriber, from }: Listening, result: Bytes) => {
      if (sequence >= from) send(subscriber, result)
    }
    for (const channel of Object.values(channels))
      channel.emit(event, event.type === 'added' ? sendAdded : sendRemoved)
  }

  return {
    add(subscriber: Subscriber, what: FlashblockSubscription): () => void {
      feed.catchUp()
      stopListening ??= feed.listen(onEvents)
      const { since } = what
      if (since !== undefined) {
        const capacity = { maxBytes, envelopeBytes: envelopeBytes(subscriber) }
        const results = replayed(feed.since(since), what, { flashblockId: since, ...capacity })
        for (const result of results) subscriber.results.push(result)
      }
      // A returning subscriber may have received any flashblock before, so it gets all removals.
      const from = since === undefined ? feed.next : 0
      // The cast is safe, because kind and options come from the same member of the union.
      const channel = channels[what.kind] as Channel<Listening, unknown>
      const one = { subscriber, from }
      const leave = channel.add(one, what.options)
      listening.add(one)
      return () => {
        leave()
        listening.delete(one)
        if (listening.size > 0) return
        stopListening?.()
        stopListening = undefined
      }
    },
  }
}
