/** Several feeds: the first copy wins, one fills the holes of another, and none drops what another one has sent. */
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

/** Block 1 is canonical, both feeds are connected. */
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

describe('copies', () => {
  test('the first of a flashblock counts, whoever brings it', async () => {
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
      'each fills the hole of the other',
      [
        [A, 0],
        [B, 1],
        [A, 2],
      ],
    ],
    [
      'one overtakes within a feed',
      [
        [A, 0],
        [A, 2],
        [A, 1],
      ],
    ],
    [
      'copies of what overtook',
      [
        [A, 0],
        [A, 2],
        [B, 2],
        [B, 1],
        [A, 1],
      ],
    ],
  ]
  test.each(orders)('%s', async (_, parts) => {
    const world = await twoFeeds()
    for (const [feed, index] of parts) await send(world, feed, a[1]!.flashblocks[index]!)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
    expect([world.count('feed_gap'), world.count('flush')]).toEqual([0, 0])
  })

  test('a hole is told of after a cadence, and filled later all the same', async () => {
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

  test('a wrong copy is passed over: what was shown stays, and the right one goes on', async () => {
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

  test('a wrong index 0 is passed over as well', async () => {
    const world = await twoFeeds()
    await world.packet(spoilt(a[1]!.flashblocks[0]!), 99n, B)
    expect(world.heads().pending[0]).toBe(1)
    await send(world, A, ...a[1]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
  })
})

describe('another payload of a height', () => {
  test('of the same feed counts at once', async () => {
    const world = await twoFeeds()
    await send(world, A, a[1]!.flashblocks[0]!, b[0]!.flashblocks[0]!)
    expect(world.count('flush') + world.count('feed_second_payload')).toBe(1)
    await send(world, A, ...b[0]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  test('of another feed is held while the first goes on, and of no use when that is canonical', async () => {
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

  test('of another feed counts once the first is silent for a cadence', async () => {
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
    ['of a height to come', (one) => ({ ...one, blockNumber: 12n })],
    ['with a wrong sum', spoilt],
  ]
  test.each(wrongOnes)(
    'waits from the right flashblock of the first, not from one %s before it',
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

  test('does not wait for copies of what the first has sent', async () => {
    const world = await twoFeeds()
    const [zero, one] = a[1]!.flashblocks as [Flashblock, Flashblock]
    await send(world, A, zero, one)
    await send(world, B, ...b[0]!.flashblocks.slice(0, 1))
    await wait(world, CADENCE - 1)
    await send(world, A, zero, one)
    await wait(world, 1)
    expect(world.heads().pending).toEqual([2, 0])
  })

  test('of another feed counts at once when the first is lost, with all that it has sent', async () => {
    const world = await twoFeeds()
    await send(world, A, a[1]!.flashblocks[0]!)
    await send(world, B, ...b[0]!.flashblocks)
    expect(world.heads().pending).toEqual([2, 0])
    await cut(world, A)
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  test('counts when the first feed sends it too', async () => {
    const world = await twoFeeds()
    await send(world, A, a[1]!.flashblocks[0]!)
    await send(world, B, ...b[0]!.flashblocks)
    await send(world, A, b[0]!.flashblocks[0]!)
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  test('of a complete height does not drop the block above it', async () => {
    const world = await twoFeeds()
    await send(world, A, ...a[1]!.flashblocks)
    await world.settle()
    await send(world, A, a[2]!.flashblocks[0]!)
    await send(world, B, ...b[0]!.flashblocks)
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 0] })
    // Nobody speaks for the first any more.
    await wait(world, CADENCE)
    await world.settle()
    expect(world.heads().complete).toEqual(at(b[0]!))
  })

  test('comes too late for a block that was found equal to its canonical one', async () => {
    const world = await twoFeeds()
    await send(world, A, ...a[1]!.flashblocks.slice(0, 2))
    await world.apply({ type: 'sealed', block: a[1]!.sealed })
    await wait(world, CADENCE)
    // All is executed, and the keeper has not said its root yet.
    await send(world, B, ...b[0]!.flashblocks)
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[1]!))
    expect([world.count('sealed_executed_whole'), world.count('payload_replaced')]).toEqual([0, 0])
  })

  test('the block after it does not end the first', async () => {
    const world = await twoFeeds()
    await send(world, A, a[1]!.flashblocks[0]!, a[1]!.flashblocks[1]!)
    await send(world, B, b[1]!.flashblocks[0]!)
    await world.settle()
    expect([world.heads().pending, world.count('flush')]).toEqual([[2, 1], 0])
    await send(world, A, a[1]!.flashblocks[2]!, ...a[2]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[2]!))
  })

  test('an index 0 that names another height under the same payload id holds nothing up', async () => {
    const world = await twoFeeds()
    const [zero, ...rest] = a[2]!.flashblocks as [Flashblock, ...Flashblock[]]
    const base = { ...zero.base!, blockNumber: 12n }
    await world.packet({ ...zero, base, blockNumber: 12n }, 77n, A)
    await send(world, B, zero, ...rest)
    expect(world.heads().pending).toEqual([1, 2])
    await seal(world, a[1]!)
    expect(world.heads().pending).toEqual([3, 2])
  })
  test('one feed cannot push out what another one has had held', async () => {
    const world = await twoFeeds({ limits: { heldPackets: 4 } })
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

describe('a feed that is cut', () => {
  test('affects only what came from it', async () => {
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

  test('its End proves nothing, that of the other does', async () => {
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

  test('an End that overtakes the last flashblock of another feed waits for it', async () => {
    const world = await twoFeeds()
    const messages = unannounced(a[1]!)
    await send(world, B, messages[0]!)
    // The first of these fails, so that the others are early.
    await world.packet(spoilt(messages[1]!), 77n, B)
    await send(world, B, messages[2]!, a[1]!.end)
    expect(world.heads().pending).toEqual([2, 0])
    await send(world, A, messages[0]!, messages[1]!)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
  })

  test('what it had held goes on', async () => {
    const world = await twoFeeds()
    await send(world, A, ...a[2]!.flashblocks)
    await cut(world, A)
    await send(world, B, ...a[1]!.flashblocks)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[2]!))
  })
})

test('what is held goes when canonical has passed it', async () => {
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

test('without flashblocks canonical goes on at once, and health hears of the silence', async () => {
  const world = await twoFeeds({ limits: { silentBlocks: 2 } })
  await wait(world, 700)
  expect(world.writer.gauges()).toMatchObject({ feed_silent_ms: 700, feed_away: 0 })
  for (const block of a.slice(1, 3)) {
    await seal(world, block)
    await world.settle({ ticks: true })
  }
  expect(world.writer.gauges()).toMatchObject({ feed_away: 1 })
  // No grace for flashblocks that nobody sends.
  await seal(world, a[3]!)
  expect(world.heads()).toMatchObject({ canonical: at(a[3]!), complete: at(a[3]!) })
  expect([world.heads().pending[0], world.count('flush')]).toEqual([4, 0])
  await send(world, B, a[4]!.flashblocks[0]!)
  expect(world.writer.gauges()).toMatchObject({ feed_silent_ms: 0, feed_away: 0 })
})
