/**
 * The relay to followers of this node has the frames unchanged, once, in the order in which they
 * become visible.
 */
import { beforeAll, expect, test } from 'vitest'
import { encodePacket } from '../../../engine/flashblocks/codec.ts'
import type { FeedMessage, Flashblock } from '../../../engine/flashblocks/types.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, seal, worldWith } from '../../fixtures/writer-branches.ts'
import { digestOf, type WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
let longer: ProducedBlock
beforeAll(async () => {
  ;({ a, b, longer } = await createBranches())
})

const A = 0
const B = 1
const two = () => a[1]!
const three = () => a[2]!

async function twoFeeds(): Promise<WriterWorld> {
  const world = await worldWith(a.slice(0, 1))
  await world.apply({ type: 'feed', feed: B, isConnected: true })
  return world
}
/** Makes the bytes that only this feed sends for the message. */
const rawOf = (message: FeedMessage, feed: number) =>
  Buffer.concat([encodePacket(message, 'plain'), Buffer.from(' '.repeat(feed))])
async function send(world: WriterWorld, feed: number, ...messages: readonly FeedMessage[]) {
  for (const message of messages) {
    const about = { digest: digestOf(message), receivedAtMs: world.clock.ms }
    const packet = { feed, message, ...about, raw: rawOf(message, feed) }
    await world.apply({ type: 'packet', packet })
  }
}
const relayed = (world: WriterWorld) =>
  world.emitted.flatMap((effect) => (effect.type === 'relay' ? [Buffer.from(effect.raw)] : []))
const messageIds = (world: WriterWorld) =>
  world.emitted.flatMap((effect) =>
    effect.type === 'relay'
      ? [`${effect.messageId.number}.${effect.messageId.index ?? 'end'}`]
      : [],
  )

test('the relay sends the first copy of each flashblock in order, and one End', async () => {
  const world = await twoFeeds()
  const [zero, one, last] = two().flashblocks as [Flashblock, Flashblock, Flashblock]
  await send(world, A, zero)
  await send(world, B, zero, last, one)
  await send(world, A, one, last, two().end)
  await send(world, B, two().end)
  expect(relayed(world)).toEqual([
    rawOf(zero, A),
    rawOf(one, B),
    rawOf(last, B),
    rawOf(two().end, A),
  ])
  expect(messageIds(world)).toEqual(['2.0', '2.1', '2.2', '2.end'])
})

test('the relay sends no wrong flashblock and none that cannot be executed yet', async () => {
  const world = await twoFeeds()
  const [zero, one, last] = two().flashblocks as [Flashblock, Flashblock, Flashblock]
  const delta = { ...one.delta, gasUsed: one.delta.gasUsed + 1n }
  await send(world, A, zero)
  await world.apply({
    type: 'packet',
    packet: {
      feed: B,
      message: { ...one, delta },
      digest: 99n,
      receivedAtMs: 0,
      raw: Buffer.from('wrong'),
    },
  })
  await send(world, B, last)
  expect(messageIds(world)).toEqual(['2.0'])
  await send(world, A, one)
  expect(relayed(world)).toEqual([rawOf(zero, A), rawOf(one, A), rawOf(last, B)])
})

test('the relay sends an unproven End only after its block has ended', async () => {
  const world = await twoFeeds()
  const unannounced = two().flashblocks.map((message) => ({ ...message, targetIndex: 0 }))
  // The connection was lost in between, so something may be missing.
  await send(world, A, ...unannounced)
  await world.apply({ type: 'feed', feed: A, isConnected: false })
  await world.apply({ type: 'feed', feed: A, isConnected: true })
  await send(world, A, two().end)
  await world.settle()
  expect(messageIds(world)).toEqual(['2.0', '2.1', '2.2'])
  await send(world, A, three().flashblocks[0]!)
  await world.settle()
  expect(messageIds(world)).toEqual(['2.0', '2.1', '2.2', '2.end', '3.0'])
})

test('the relay sends the End of a feed that resumed without a gap', async () => {
  const world = await twoFeeds()
  const unannounced = two().flashblocks.map((message) => ({ ...message, targetIndex: 0 }))
  await send(world, A, ...unannounced)
  await world.apply({ type: 'feed', feed: A, isConnected: false })
  await world.apply({ type: 'feed', feed: A, isConnected: true, isResumed: true })
  await send(world, A, two().end)
  expect(messageIds(world)).toEqual(['2.0', '2.1', '2.2', '2.end'])
})

test('the relay sends no End of a block with more transactions than the feeds sent', async () => {
  const world = await twoFeeds()
  const part = longer.flashblocks.slice(0, 2).map((message) => ({ ...message, targetIndex: 0 }))
  await send(world, A, ...part)
  await seal(world, longer)
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(2)
  expect(world.count('sealed_completed_flashblocks')).toBe(1)
  await send(world, A, longer.end)
  expect(messageIds(world)).toEqual(['2.0', '2.1'])
})

test('the relay sends an End after index 0 alone', async () => {
  const world = await twoFeeds()
  await send(world, A, b[0]!.flashblocks[0]!, { type: 'end', payloadId: b[0]!.end.payloadId })
  expect(messageIds(world)).toEqual(['2.0', '2.end'])
})
