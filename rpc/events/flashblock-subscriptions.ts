/** Subscribers of flashblocks on both endpoints: each event of a feed to those of each kind that want it. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { type Channel, type Channels, createChannels } from './channels.ts'
import type { FlashblockFeed } from './flashblock-feed.ts'
import { envelopeBytes, type Subscriber } from './outbox.ts'
import { type FlashblockSubscription, gapMarker, replayed } from './since.ts'
import type { FlashblockEvent, Gap } from './told.ts'

type Options = {
  readonly feeds: Readonly<Record<Endpoint, FlashblockFeed>>
  readonly send: (subscriber: Subscriber, result: Bytes) => void
  /** All of an event has been sent. */
  readonly flush: () => void
  /** Of a replay. */
  readonly mostBytes: number
}
/** `from`: the first flashblock that it may be told is gone. */
type Listening = { readonly subscriber: Subscriber; readonly from: number }

export function createFlashblockSubscriptions(options: Options): {
  /** What it gives ends the subscription. */
  add(subscriber: Subscriber, what: FlashblockSubscription): () => void
} {
  const of = {
    standard: createSide(options.feeds.standard, options),
    flashblocks: createSide(options.feeds.flashblocks, options),
  }
  return { add: (subscriber, what) => of[subscriber.client.endpoint].add(subscriber, what) }
}

function createSide(feed: FlashblockFeed, { send, flush, mostBytes }: Options) {
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
      } else tell(event)
    flush()
  }
  function tell(event: Exclude<FlashblockEvent, Gap>): void {
    const { sequence } = event.flashblock
    const sendRemoved = ({ subscriber, from }: Listening, result: Bytes) => {
      if (sequence >= from) send(subscriber, result)
    }
    for (const channel of Object.values(channels))
      channel.tell(event, event.type === 'added' ? sendAdded : sendRemoved)
  }

  return {
    add(subscriber: Subscriber, what: FlashblockSubscription): () => void {
      feed.catchUp()
      stopListening ??= feed.listen(onEvents)
      const { since } = what
      if (since !== undefined) {
        const room = { mostBytes, envelopeBytes: envelopeBytes(subscriber) }
        const results = replayed(feed.since(since), what, { place: since, ...room })
        for (const result of results) subscriber.results.push(result)
      }
      // Who was here before may have been told of anything.
      const from = since === undefined ? feed.next : 0
      // The options are those of the kind: the union says it, and the table is by kind.
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
