import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { FeedPacket } from '../../../engine/sources/writer/types.ts'
import { listenToFeeds } from '../../../workers/feed-client/listen.ts'
import type { FeedToWriter, WriterToFeed } from '../../../workers/feed-client/messages.ts'

let channels: MessageChannel[]
beforeEach(() => {
  channels = [new MessageChannel(), new MessageChannel()]
})
afterEach(() => {
  for (const { port1 } of channels) port1.close()
})

/**
 * Feed n sends frames of these sizes; gives the writer's packets, and the messages to the feeds.
 */
async function bring(...sent: (readonly [feed: number, bytes: number])[]) {
  const packets: FeedPacket[] = []
  const received: (WriterToFeed & { readonly feed: number })[] = []
  const all = Promise.withResolvers<void>()
  const ports = listenToFeeds(
    channels.map(({ port2 }) => port2),
    (event) => {
      if (event.type === 'packet') packets.push(event.packet)
      if (packets.length === sent.length) all.resolve()
    },
  )
  for (const [feed, { port1 }] of channels.entries())
    port1.on('message', (message: WriterToFeed) => received.push({ ...message, feed }))
  for (const [at, [feed, bytes]] of sent.entries()) {
    const message = { type: 'end', payloadId: String(at) } as const
    const about = { digest: 0n, receivedAtMs: 0, raw: new Uint8Array(), bytes }
    const frame: FeedToWriter = { type: 'frame', feed, message, ...about }
    channels[feed]!.port1.postMessage(frame)
  }
  await all.promise
  const packet = (at: number) =>
    packets.find(({ message }) => message.payloadId === String(at)) as object
  return {
    async receivedAfterTaking(...taken: number[]) {
      for (const at of taken) ports.taken(packet(at))
      // Messages before the close arrive before it.
      const closed = channels.map(({ port1 }) => once(port1, 'close'))
      ports.close()
      await Promise.all(closed)
      return received
    },
  }
}

const sent = [
  [0, 10],
  [1, 100],
  [0, 20],
  [0, 40],
  [1, 200],
] as const
const cases: [
  name: string,
  taken: number[],
  received: [feed: number, frames: number, bytes: number][],
][] = [
  ['no frame', [], []],
  ['the first frame of a feed', [0], [[0, 1, 10]]],
  ['a later frame also counts those before it', [3], [[0, 3, 70]]],
  [
    'frames of two feeds',
    [2, 4],
    [
      [0, 2, 30],
      [1, 2, 300],
    ],
  ],
  [
    'one frame after the other',
    [0, 2, 3],
    [
      [0, 1, 10],
      [0, 1, 20],
      [0, 1, 40],
    ],
  ],
  ['earlier frames after a later one', [3, 2, 0, 3], [[0, 3, 70]]],
]
test.each(cases)(
  'each feed learns how many of its frames were taken: %s',
  async (_, taken, expected) => {
    const { receivedAfterTaking } = await bring(...sent)
    const received = await receivedAfterTaking(...taken)
    expect(received.map(({ feed, frames, bytes }) => [feed, frames, bytes])).toEqual(expected)
  },
)

test('a packet of no feed is not reported to any feed', async () => {
  const { receivedAfterTaking } = await bring([0, 1])
  const ports = listenToFeeds([], () => {})
  ports.taken({})
  expect(await receivedAfterTaking()).toEqual([])
})
