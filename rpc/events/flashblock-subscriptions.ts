/**
 * Subscribers of flashblocks on both endpoints. Each endpoint has its own feed, and one channel for
 * each kind of subscription (`FlashblockKind`).
 */
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
  /** Called after the results of all events of one read are sent. */
  readonly flush: () => void
  /** Maximum bytes of a replay, envelopes included. */
  readonly maxBytes: number
}
/** A subscriber. It gets removals only of flashblocks whose sequence number is `from` or later. */
type Entry = { readonly subscriber: Subscriber; readonly from: number }

export function createFlashblockSubscriptions(options: Options): {
  /**
   * Adds a subscriber to the feed of its client's endpoint. A subscription with `since` first gets
   * the replay, which is buffered in `subscriber.results` until the subscription starts.
   * @returns a function that ends the subscription
   */
  add(subscriber: Subscriber, wanted: FlashblockSubscription): () => void
} {
  const sides = {
    standard: createSide(options.feeds.standard, options),
    flashblocks: createSide(options.feeds.flashblocks, options),
  }
  return { add: (subscriber, wanted) => sides[subscriber.client.endpoint].add(subscriber, wanted) }
}

/** Creates the subscriptions of one endpoint. The feed is listened to while there are any. */
function createSide(feed: FlashblockFeed, { send, flush, maxBytes }: Options) {
  const channels: Channels<Entry> = createChannels()
  const entries = new Set<Entry>()
  let stopListening: (() => void) | undefined

  const sendAdded = ({ subscriber }: Entry, result: Bytes) => send(subscriber, result)
  function onEvents(events: readonly FlashblockEvent[]): void {
    for (const [at, event] of events.entries())
      if (event.type === 'gap') {
        const next = events.slice(at).find((one) => one.type === 'added')?.flashblock
        const marker = gapMarker(event.after, next)
        for (const entry of [...entries]) sendAdded(entry, marker)
      } else emit(event)
    flush()
  }
  /** Emits an added or removed flashblock. */
  function emit(event: Exclude<FlashblockEvent, Gap>): void {
    const { sequence } = event.flashblock
    const sendRemoved = ({ subscriber, from }: Entry, result: Bytes) => {
      if (sequence >= from) send(subscriber, result)
    }
    for (const channel of Object.values(channels))
      channel.emit(event, event.type === 'added' ? sendAdded : sendRemoved)
  }

  return {
    add(subscriber: Subscriber, wanted: FlashblockSubscription): () => void {
      // Present subscribers get the outstanding events before the new one joins.
      feed.catchUp()
      stopListening ??= feed.listen(onEvents)
      const { since } = wanted
      if (since !== undefined) {
        const results = replayed(feed.since(since), wanted, {
          flashblockId: since,
          maxBytes,
          envelopeBytes: envelopeBytes(subscriber),
        })
        // The limit of `send` for a subscription that has not started does not apply to a replay.
        for (const result of results) subscriber.results.push(result)
      }
      // A subscriber with `since` may have received any flashblock before, so it gets all removals.
      // `feed.next` is the sequence number of the next flashblock.
      const from = since === undefined ? feed.next : 0
      // The cast is safe, because kind and options come from the same member of the union.
      const channel = channels[wanted.kind] as Channel<Entry, unknown>
      const entry = { subscriber, from }
      const leave = channel.add(entry, wanted.options)
      entries.add(entry)
      return () => {
        leave()
        entries.delete(entry)
        if (entries.size > 0) return
        stopListening?.()
        stopListening = undefined
      }
    },
  }
}
