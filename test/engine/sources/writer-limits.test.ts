/** The limits of the writer, and the mailbox before it. */
import { beforeAll, describe, expect, test } from 'vitest'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import { Mailbox } from '../../../engine/sources/writer/mailbox.ts'
import type { WriterEvent } from '../../../engine/sources/writer/types.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, publishBlock, seal, worldWith } from '../../fixtures/writer-branches.ts'
import { digestOf, hex, type WorldOptions, WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
beforeAll(async () => {
  a = (await createBranches()).a
})
const worldAt = (count: number, options: WorldOptions = {}) => worldWith(a.slice(0, count), options)
const at = (block: ProducedBlock) => [block.number, hex(block.hash)]

describe('the limits of the writer', () => {
  test('make canonical blocks wait while the persistence thread does not persist', async () => {
    const world = new WriterWorld({ foldDepth: 1, limits: { backlog: 1 } })
    const responseOnly = async () => {
      while (world.requests.length > 0 || world.responses.length > 0) {
        const request = world.requests[0]
        world.handleRequest()
        if (request?.type === 'root') world.persistenceStep()
        while (await world.deliverResponse()) {}
      }
    }
    for (const block of a.slice(0, 4)) {
      await world.apply({ type: 'sealed', block: block.upstreamBlock })
      await responseOnly()
    }
    const { head_canonical, waiting_canonical_blocks, fold_lag } = world.writer.gauges()
    expect(fold_lag).toBeLessThanOrEqual(2)
    expect(head_canonical! + waiting_canonical_blocks!).toBe(4)
    await world.settle()
    expect(world.heads().canonical).toEqual(at(a[3]!))
  })

  test('drop flashblocks too far above canonical', async () => {
    const world = await worldAt(0, { limits: { ahead: 2 } })
    for (const block of a.slice(0, 3)) await publishBlock(world, block)
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [2, 2] })
    expect(world.count('feed_too_far_ahead')).toBe(1)
  })

  test('bound the buffered packets in units of whole payloads', async () => {
    const world = await worldAt(0, { limits: { bufferedPackets: 4 } })
    for (const block of a.slice(1, 4))
      for (const message of block.flashblocks) await world.packet(message)
    expect(world.writer.gauges()['held_frames']).toBeLessThanOrEqual(4)
    await publishBlock(world, a[0]!)
    expect(world.heads().complete).toEqual(at(a[0]!))
  })

  test('drop pending and cancel readers in a full arena, and canonical continues', async () => {
    const world = await worldAt(0, { bytes: 7 * 65_536 })
    const leases = [world.reader.lease('standard')]
    for (const block of a.slice(0, 6)) {
      await world.packet(block.flashblocks[0]!)
      await seal(world, block)
    }
    expect(world.emitted.some(({ type }) => type === 'cancel')).toBe(true)
    expect(world.heads().canonical[0]).toBeLessThan(6)
    for (const lease of leases) lease.release()
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[5]!))
  })
})

test('with the arena full of complete blocks, a different canonical block is taken', async () => {
  const { a, b } = await createBranches()
  const world = await worldWith(a.slice(0, 1), { bytes: 6 * 65_536 })
  for (const block of a.slice(1, 7)) await publishBlock(world, block)
  expect(world.heads().complete[0]).toBeGreaterThan(2)
  expect(world.count('memory_full')).toBeGreaterThan(0)
  await seal(world, b[0]!)
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual(at(b[0]!))
})

describe('the mailbox', () => {
  const packet = (message: FeedMessage, feed = 0): WriterEvent => ({
    type: 'packet',
    packet: { feed, message, digest: digestOf(message), receivedAtMs: 0 },
  })
  const textOf = (event: WriterEvent | undefined) =>
    event?.type === 'packet' && event.packet.message.type === 'flashblock'
      ? `${Number(event.packet.message.payloadId)}:${event.packet.message.index}`
      : event?.type
  const drain = (mailbox: Mailbox, known: readonly ProducedBlock[]) => {
    const order: (string | undefined)[] = []
    for (;;) {
      const event = mailbox.next((hash) => known.some((block) => hex(block.hash) === hex(hash)))
      if (event === undefined) return order
      order.push(textOf(event))
    }
  }

  test('gives responses first, then canonical blocks, then the feed in order', () => {
    const mailbox = new Mailbox()
    for (const message of a[0]!.flashblocks) mailbox.push(packet(message))
    mailbox.push({ type: 'sealed', block: a[0]!.upstreamBlock })
    mailbox.push({ type: 'answer', response: { type: 'failed', message: '' } })
    expect(mailbox.size).toBe(5)
    expect(drain(mailbox, [])).toEqual(['answer', 'sealed', '1:0', '1:1', '1:2'])
  })

  test('gives the loss of a feed after the waiting packets of that feed', () => {
    const mailbox = new Mailbox()
    const feed = (isConnected: boolean, at = 0) =>
      mailbox.push({ type: 'feed', feed: at, isConnected })
    const [zero, one, two] = a[0]!.flashblocks
    mailbox.push(packet(zero!))
    feed(false)
    feed(true)
    mailbox.push(packet(one!))
    feed(false, 1)
    expect(mailbox.size).toBe(5)
    expect(mailbox.next(() => false)).toMatchObject({ type: 'feed', feed: 1 })
    expect(drain(mailbox, [])).toEqual(['1:0', 'feed', 'feed', '1:1'])
    feed(false)
    mailbox.push(packet(two!))
    expect(drain(mailbox, [])).toEqual(['feed', '1:2'])
  })

  test('keeps the loss of a feed when it skips packets', () => {
    const mailbox = new Mailbox()
    for (const message of a[1]!.flashblocks) mailbox.push(packet(message))
    mailbox.push({ type: 'feed', feed: 0, isConnected: false })
    for (const message of a[2]!.flashblocks) mailbox.push(packet(message))
    expect(drain(mailbox, [a[1]!])).toEqual(['feed', 'feed', '3:0', '3:1', '3:2'])
  })

  test('skips to the newest index 0 with a known parent when over a block behind', () => {
    const mailbox = new Mailbox()
    for (const block of a.slice(1, 4))
      for (const message of block.flashblocks) mailbox.push(packet(message))
    expect(drain(mailbox, [a[0]!, a[1]!])).toEqual([
      'feed',
      '3:0',
      '3:1',
      '3:2',
      '4:0',
      '4:1',
      '4:2',
    ])
    expect([mailbox.takeSkipped(), mailbox.takeSkipped()]).toEqual([3, 0])
  })

  test('gives one event for packets in a row that it has dropped one by one', () => {
    const mailbox = new Mailbox({ packets: 1, packetBytes: 2 ** 20 })
    for (const block of a.slice(0, 3))
      for (const message of block.flashblocks) mailbox.push(packet(message))
    mailbox.push({ type: 'feed', feed: 0, isConnected: false })
    expect(mailbox.size).toBe(3)
    expect(mailbox.next(() => false)).toEqual({ type: 'feed', feed: 0, isConnected: true })
    expect(drain(mailbox, [])).toEqual(['3:2', 'feed'])
  })

  test('skips nothing without a known parent', () => {
    const mailbox = new Mailbox()
    for (const block of a.slice(1, 3))
      for (const message of block.flashblocks) mailbox.push(packet(message))
    expect(drain(mailbox, [])).toHaveLength(6)
  })

  test('skips and drops the packets of each feed separately', () => {
    const mailbox = new Mailbox({ packets: 3, packetBytes: 2 ** 20 })
    for (const message of a[1]!.flashblocks) mailbox.push(packet(message, 1))
    for (const block of a.slice(1, 4))
      for (const message of block.flashblocks) mailbox.push(packet(message))
    // The other feed is a block behind, and goes on.
    expect(drain(mailbox, [a[0]!, a[1]!])).toEqual([
      '2:0',
      '2:1',
      '2:2',
      'feed',
      '4:0',
      '4:1',
      '4:2',
    ])
    const twoBlocks = new Mailbox()
    for (const block of a.slice(1, 3))
      for (const message of block.flashblocks)
        for (const feed of [0, 1]) twoBlocks.push(packet(message, feed))
    expect(drain(twoBlocks, [a[0]!])).toHaveLength(12)
  })

  test('bounds packets and their bytes by dropping the oldest', () => {
    const few = new Mailbox({ packets: 2, packetBytes: 2 ** 20 })
    for (const message of a[0]!.flashblocks) few.push(packet(message))
    expect(drain(few, [])).toEqual(['feed', '1:1', '1:2'])
    const small = new Mailbox({ packets: 99, packetBytes: 2_500 })
    for (const message of a[0]!.flashblocks) small.push(packet(message))
    expect(drain(small, [])).toEqual(['feed', '1:2'])
    expect(small.takeSkipped()).toBe(2)
  })
})
