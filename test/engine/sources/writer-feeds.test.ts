/**
 * Several feeds: the first copy wins, one fills the gaps of another, and none drops the flashblocks
 * of another.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import type { FeedMessage, Flashblock } from '../../../engine/flashblocks/types.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, seal, worldWith } from '../../fixtures/writer-branches.ts'
import { digestOf, hex, type WorldOptions, type WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
beforeAll(async () => {
  ;({ a, b } = await createBranches())
})

const A = 0
const B = 1
const CADENCE = 250
const at = (block: ProducedBlock) => [block.number, hex(block.hash)]

/** Makes a world in which block 1 is canonical and both feeds are connected. */
async function twoFeeds(options: WorldOptions = {}): Promise<WriterWorld> {
  const world = await worldWith(a.slice(0, 1), {
    ...options,
    limits: { cadenceMs: CADENCE, ...options.limits },
  })
  await world.apply({ type: 'feed', feed: B, isConnected: true })
  return world
}
const send = (world: WriterWorld, feed: number, ...messages: readonly FeedMessage[]) =>
  messages.reduce(
    (before, message) => before.then(() => world.packet(message, digestOf(message), feed)),
    Promise.resolve(),
  )
const cut = (world: WriterWorld, feed: number) =>
  world.apply({ type: 'feed', feed, isConnected: false })
async function wait(world: WriterWorld, ms: number): Promise<void> {
  const untilMs = world.clock.ms + ms
  for (let dueMs = world.writer.wakeAtMs(); dueMs !== undefined && dueMs <= untilMs; ) {
    world.clock.ms = Math.max(world.clock.ms, dueMs)
    await world.apply({ type: 'tick' })
    dueMs = world.writer.wakeAtMs()
  }
  world.clock.ms = untilMs
}
const unannounced = (block: ProducedBlock): Flashblock[] =>
  block.flashblocks.map((message) => ({ ...message, targetIndex: 0 }))
const spoilt = (message: Flashblock): Flashblock => ({
  ...message,
  delta: { ...message.delta, gasUsed: message.delta.gasUsed + 1n },
})

describe('two feeds of one block', () => {
  test('complete it with the first copy of each flashblock', async () => {
    const world = await twoFeeds()
    const [zero, one, two] = a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
    await send(world, A, zero)
    await send(world, B, zero, one)
    await send(world, A, one, two)
    await send(world, B, two)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
    expect(world.count('feed_duplicate')).toBe(3)
  })

  const orders: [name: string, parts: readonly [feed: number, index: number][]][] = [
    [
      'the second feed fills the hole of the first',
      [
        [A, 0],
        [A, 2],
        [B, 0],
        [B, 1],
        [B, 2],
      ],
    ],
    [
      'each feed fills the hole of the other',
      [
        [A, 0],
        [B, 1],
        [A, 2],
      ],
    ],
    [
      'an index arrives before an earlier one',
      [
        [A, 0],
        [A, 2],
        [A, 1],
      ],
    ],
    [
      'such an early index arrives on both feeds',
      [
        [A, 0],
        [A, 2],
        [B, 2],
        [B, 1],
        [A, 1],
      ],
    ],
  ]
  test.each(orders)('complete it in this order: %s', async (_, parts) => {
    const world = await twoFeeds()
    for (const [feed, index] of parts) await send(world, feed, a[1]!.flashblocks[index]!)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
    expect([world.count('feed_gap'), world.count('flush')]).toEqual([0, 0])
  })

  test('report a gap after a cadence, and may fill it later', async () => {
    const world = await twoFeeds()
    const [zero, one, two] = a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
    await send(world, A, zero, two)
    await wait(world, CADENCE - 1)
    expect(world.count('feed_gap')).toBe(0)
    await wait(world, 1)
    await wait(world, 10 * CADENCE)
    expect([world.count('feed_gap'), world.heads().pending]).toEqual([1, [2, 0]])
    await send(world, B, one)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
  })

  test('skip a wrong copy and continue with the right one', async () => {
    const world = await twoFeeds()
    const [zero, one, two] = a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
    await send(world, A, zero)
    await world.packet(spoilt(one), 99n, B)
    expect([world.heads().pending, world.count('mismatch_gas_used')]).toEqual([[2, 0], 1])
    await world.packet(spoilt(one), 99n, B)
    expect(world.count('feed_wrong_again')).toBe(1)
    await send(world, A, one, two)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
    expect(world.count('flush')).toBe(0)
  })

  test('skip a wrong index 0 as well', async () => {
    const world = await twoFeeds()
    await world.packet(spoilt(a[1]!.flashblocks[0]!), 99n, B)
    expect(world.heads().pending[0]).toBe(1)
    await send(world, A, ...a[1]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
  })
})

describe('a competing payload', () => {
  test('of the same feed is taken at once', async () => {
    const world = await twoFeeds()
    await send(world, A, a[1]!.flashblocks[0]!, b[0]!.flashblocks[0]!)
    expect(world.count('flush') + world.count('feed_second_payload')).toBe(1)
    await send(world, A, ...b[0]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  test('of another feed is buffered, and dropped when the first is canonical', async () => {
    const world = await twoFeeds()
    const [zero, one, two] = a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
    await send(world, A, zero)
    await send(world, B, ...b[0]!.flashblocks, b[0]!.end)
    for (const message of [one, two]) {
      await wait(world, CADENCE - 50)
      await send(world, A, message)
    }
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
    expect(world.writer.gauges()['held_frames']).toBe(3)
    await seal(world, a[1]!)
    expect(world.writer.gauges()['held_frames']).toBe(0)
    expect([world.heads().canonical, world.count('feed_skipped')]).toEqual([at(a[1]!), 3])
  })

  test('of another feed is taken once the first is silent for a cadence', async () => {
    const world = await twoFeeds()
    await send(world, A, ...a[1]!.flashblocks.slice(0, 2))
    await send(world, B, ...b[0]!.flashblocks.slice(0, 1))
    await wait(world, CADENCE - 1)
    expect(world.heads().pending).toEqual([2, 1])
    await wait(world, 1)
    expect(world.heads().pending).toEqual([2, 0])
    await send(world, B, ...b[0]!.flashblocks.slice(1))
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  const wrongOnes: [name: string, change: (one: Flashblock) => Flashblock][] = [
    ['of an old height', (one) => ({ ...one, blockNumber: 1n })],
    ['of a future height', (one) => ({ ...one, blockNumber: 12n })],
    ['with a wrong gas sum', spoilt],
  ]
  test.each(wrongOnes)(
    'waits a cadence from the last valid flashblock, not from one %s',
    async (_, change) => {
      const world = await twoFeeds()
      const [zero, one] = a[1]!.flashblocks as [Flashblock, Flashblock]
      await send(world, A, zero)
      await send(world, B, ...b[0]!.flashblocks.slice(0, 1))
      await wait(world, 100)
      await world.packet(change(one), 99n, A)
      await wait(world, 100)
      await send(world, A, one)
      await wait(world, CADENCE - 1)
      expect(world.heads().pending).toEqual([2, 1])
      await wait(world, 1)
      expect(world.heads().pending).toEqual([2, 0])
    },
  )

  test('does not wait for repeated copies of the first payload', async () => {
    const world = await twoFeeds()
    const [zero, one] = a[1]!.flashblocks as [Flashblock, Flashblock]
    await send(world, A, zero, one)
    await send(world, B, ...b[0]!.flashblocks.slice(0, 1))
    await wait(world, CADENCE - 1)
    await send(world, A, zero, one)
    await wait(world, 1)
    expect(world.heads().pending).toEqual([2, 0])
  })

  test('is taken at once with all its flashblocks when the first feed is lost', async () => {
    const world = await twoFeeds()
    await send(world, A, a[1]!.flashblocks[0]!)
    await send(world, B, ...b[0]!.flashblocks)
    expect(world.heads().pending).toEqual([2, 0])
    await cut(world, A)
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  test('is taken when the first feed sends it too', async () => {
    const world = await twoFeeds()
    await send(world, A, a[1]!.flashblocks[0]!)
    await send(world, B, ...b[0]!.flashblocks)
    await send(world, A, b[0]!.flashblocks[0]!)
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  test('of a complete height leaves the block above it for a cadence', async () => {
    const world = await twoFeeds()
    await send(world, A, ...a[1]!.flashblocks)
    await world.settle()
    await send(world, A, a[2]!.flashblocks[0]!)
    await send(world, B, ...b[0]!.flashblocks)
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 0] })
    // No feed sends the first payload any more.
    await wait(world, CADENCE)
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  test('is too late for a block that already matched its canonical block', async () => {
    const world = await twoFeeds()
    await send(world, A, ...a[1]!.flashblocks.slice(0, 2))
    await world.apply({ type: 'sealed', block: a[1]!.upstreamBlock })
    await wait(world, CADENCE)
    // Everything is executed, and the persistence thread has not given the root yet.
    await send(world, B, ...b[0]!.flashblocks)
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[1]!))
    expect([world.count('sealed_executed_whole'), world.count('payload_replaced')]).toEqual([0, 0])
  })

  test('with a child block does not end the first payload', async () => {
    const world = await twoFeeds()
    await send(world, A, a[1]!.flashblocks[0]!, a[1]!.flashblocks[1]!)
    await send(world, B, b[1]!.flashblocks[0]!)
    await world.settle()
    expect([world.heads().pending, world.count('flush')]).toEqual([[2, 1], 0])
    await send(world, A, a[1]!.flashblocks[2]!, ...a[2]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[2]!))
  })

  test('with a wrong height under the same id does not delay the right payload', async () => {
    const world = await twoFeeds()
    const [zero, ...rest] = a[2]!.flashblocks as [Flashblock, ...Flashblock[]]
    const base = { ...zero.base!, blockNumber: 12n }
    await world.packet({ ...zero, base, blockNumber: 12n }, 77n, A)
    await send(world, B, zero, ...rest)
    expect(world.heads().pending).toEqual([1, 2])
    await seal(world, a[1]!)
    expect(world.heads().pending).toEqual([3, 2])
  })
  test('does not evict the buffered flashblocks of another feed', async () => {
    const world = await twoFeeds({ limits: { bufferedPackets: 4 } })
    const flood = async () => {
      for (let n = 0; n < 5; n++)
        await send(
          world,
          B,
          ...b[2]!.flashblocks.map((message) => ({ ...message, payloadId: `0x9${n}` })),
        )
    }
    await flood()
    await send(world, A, ...a[2]!.flashblocks)
    await flood()
    await send(world, A, ...a[1]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[2]!))
  })
})

describe('a feed with missing flashblocks', () => {
  test('does not affect the flashblocks of another feed', async () => {
    const world = await twoFeeds()
    const messages = unannounced(a[1]!)
    await send(world, A, ...messages.slice(0, 2))
    await send(world, B, ...messages.slice(0, 2))
    await cut(world, A)
    expect(world.heads().pending).toEqual([2, 1])
    await send(world, B, messages[2]!, a[1]!.end)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
  })

  test('completes nothing by its End, while the End of the other feed does', async () => {
    const world = await twoFeeds()
    const messages = unannounced(a[1]!)
    await send(world, A, ...messages.slice(0, 1))
    await cut(world, A)
    await world.apply({ type: 'feed', feed: A, isConnected: true })
    await send(world, B, ...messages.slice(0, 2))
    await send(world, A, a[1]!.end)
    await world.settle()
    expect([world.heads().pending, world.count('feed_short_end')]).toEqual([[2, 1], 1])
    await send(world, B, messages[2]!, a[1]!.end)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
  })

  test('has its early End buffered until the other feed fills the hole', async () => {
    const world = await twoFeeds()
    const messages = unannounced(a[1]!)
    await send(world, B, messages[0]!)
    // The first of these flashblocks fails, so that the others are early.
    await world.packet(spoilt(messages[1]!), 77n, B)
    await send(world, B, messages[2]!, a[1]!.end)
    expect(world.heads().pending).toEqual([2, 0])
    await send(world, A, messages[0]!, messages[1]!)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
  })

  test('leaves its buffered flashblocks usable after it is lost', async () => {
    const world = await twoFeeds()
    await send(world, A, ...a[2]!.flashblocks)
    await cut(world, A)
    await send(world, B, ...a[1]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[2]!))
  })
})

test('buffered flashblocks are dropped when a canonical block passes their height', async () => {
  const world = await twoFeeds()
  await send(world, B, ...b[1]!.flashblocks)
  expect(world.writer.gauges()).toMatchObject({ held_frames: 2 })
  for (const block of a.slice(1, 3)) {
    await seal(world, block)
    await world.settle({ ticks: true })
  }
  expect(world.writer.gauges()).toMatchObject({ held_frames: 0 })
  expect(world.count('feed_skipped')).toBe(2)
})

test('a silent feed is reported, and canonical blocks continue without it', async () => {
  const world = await twoFeeds({ limits: { silentBlocks: 2 } })
  await wait(world, 700)
  expect(world.writer.gauges()).toMatchObject({ feed_silent_ms: 700, feed_away: 0 })
  for (const block of a.slice(1, 3)) {
    await seal(world, block)
    await world.settle({ ticks: true })
  }
  expect(world.writer.gauges()).toMatchObject({ feed_away: 1 })
  // Flashblocks without a feed get no grace time.
  await seal(world, a[3]!)
  expect(world.heads()).toMatchObject({ canonical: at(a[3]!), complete: at(a[3]!) })
  expect([world.heads().pending[0], world.count('flush')]).toEqual([4, 0])
  await send(world, B, a[4]!.flashblocks[0]!)
  expect(world.writer.gauges()).toMatchObject({ feed_silent_ms: 0, feed_away: 0 })
})
