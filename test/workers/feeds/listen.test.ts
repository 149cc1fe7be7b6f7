import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { FeedPacket } from '../../../engine/sources/writer/types.ts'
import { listenToFeeds } from '../../../workers/feeds/listen.ts'
import type { FeedToWriter, WriterToFeed } from '../../../workers/feeds/messages.ts'

let channels: MessageChannel[]
beforeEach(() => {
  channels = [new MessageChannel(), new MessageChannel()]
})
afterEach(() => {
  for (const { port1 } of channels) port1.close()
})

/** Feed n has sent frames of these bytes; gives them as the writer gets them, and what the feeds hear of them. */
async function bring(...sent: (readonly [feed: number, bytes: number])[]) {
  const packets: FeedPacket[] = []
  const heard: (WriterToFeed & { readonly feed: number })[] = []
  const all = Promise.withResolvers<void>()
  const ports = listenToFeeds(
    channels.map(({ port2 }) => port2),
    (event) => {
      if (event.type === 'packet') packets.push(event.packet)
      if (packets.length === sent.length) all.resolve()
    },
  )
  for (const [feed, { port1 }] of channels.entries())
    port1.on('message', (message: WriterToFeed) => heard.push({ ...message, feed }))
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
    async heardAfterTaking(...taken: number[]) {
      for (const at of taken) ports.taken(packet(at))
      // What was posted before the end is heard before it.
      const closed = channels.map(({ port1 }) => once(port1, 'close'))
      ports.close()
      await Promise.all(closed)
      return heard
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
  heard: [feed: number, frames: number, bytes: number][],
][] = [
  ['none', [], []],
  ['the first of a feed', [0], [[0, 1, 10]]],
  ['a later one stands for those before it', [3], [[0, 3, 70]]],
  [
    'but not for those of another feed',
    [2, 4],
    [
      [0, 2, 30],
      [1, 2, 300],
    ],
  ],
  [
    'each in turn',
    [0, 2, 3],
    [
      [0, 1, 10],
      [0, 1, 20],
      [0, 1, 40],
    ],
  ],
  ['one that was skipped says nothing more', [3, 2, 0, 3], [[0, 3, 70]]],
]
test.each(cases)('%s', async (_, taken, expected) => {
  const { heardAfterTaking } = await bring(...sent)
  const heard = await heardAfterTaking(...taken)
  expect(heard.map(({ feed, frames, bytes }) => [feed, frames, bytes])).toEqual(expected)
})

test('of what no feed has brought nothing is said', async () => {
  const { heardAfterTaking } = await bring([0, 1])
  const ports = listenToFeeds([], () => {})
  ports.taken({})
  expect(await heardAfterTaking()).toEqual([])
})
