/**
 * The writer executes expected transactions before their flashblock comes, but the flashblock
 * decides.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import {
  createExpectations,
  MAX_EXPECTED,
  MAX_PASSED,
} from '../../../engine/sources/writer/expected.ts'
import { createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { seal } from '../../fixtures/writer-branches.ts'
import { hex, WriterWorld } from '../../fixtures/writer-world.ts'

const [x0, x1, y0, z0] = [send(0, 0), send(0, 1), send(1, 0), send(2, 0)]
let block: ProducedBlock
let second: ProducedBlock
beforeAll(async () => {
  const producer = createProducer()
  block = await producer.build(producer.genesis, 1, [[x0, x1, y0], [], [z0]])
  second = await producer.build(block, 2, [[send(3, 0)]])
})

/** Makes a world in which index 0 has arrived. */
async function started(): Promise<WriterWorld> {
  const world = new WriterWorld()
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await world.packet(block.flashblocks[0]!)
  world.counts.clear()
  return world
}
async function runSpeculatively(
  world: WriterWorld,
  ...raws: readonly Uint8Array[]
): Promise<number> {
  for (const raw of raws) world.writer.expect({ raw })
  let runs = 0
  for (; world.writer.canSpeculate(); runs++) await world.apply({ type: 'ahead' })
  return runs
}
const counted = (world: WriterWorld) => [world.count('ahead_taken'), world.count('ahead_undone')]

describe('speculative execution for a flashblock', () => {
  const cases: [name: string, expected: readonly Uint8Array[], taken: number, undone: number][] = [
    ['that has exactly the predicted transactions', [x0.raw, x1.raw, y0.raw], 3, 0],
    ['that begins with the predicted transaction', [x0.raw], 1, 0],
    ['that ends before the last predicted transaction', [x0.raw, x1.raw, y0.raw, z0.raw], 3, 1],
    ['that differs after the first transaction', [x0.raw, y0.raw, x1.raw], 1, 2],
    ['that differs at the first transaction', [y0.raw, x0.raw, x1.raw], 0, 3],
    ['without any prediction', [], 0, 0],
    ['after a prediction that cannot be executed', [send(0, 7).raw, x0.raw], 1, 0],
    ['after a prediction that cannot be decoded', [new Uint8Array([0xc0]), x0.raw], 1, 0],
  ]
  test.each(cases)('is used as far as it fits: one %s', async (_, expected, taken, undone) => {
    const world = await started()
    await runSpeculatively(world, ...expected)
    // No reader sees the speculative execution.
    expect(world.heads().pending).toEqual([1, 0])
    for (const message of block.flashblocks.slice(1, 2)) await world.packet(message)
    expect(counted(world)).toEqual([taken, undone])
    for (const message of [...block.flashblocks.slice(2), block.end]) await world.packet(message)
    await seal(world, block)
    expect(world.heads().canonical).toEqual([1, hex(block.hash)])
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  test('is discarded when the block ends without it', async () => {
    const world = await started()
    await runSpeculatively(world, x0.raw)
    await world.packet(second.flashblocks[0]!)
    await seal(world, block)
    expect(world.heads().canonical).toEqual([1, hex(block.hash)])
  })
})

describe('an expected transaction', () => {
  test('is executed again after a flashblock without it, and later forgotten', async () => {
    const world = await started()
    await runSpeculatively(world, x0.raw, x1.raw, y0.raw, z0.raw, send(4, 0).raw)
    await world.packet(block.flashblocks[1]!)
    expect(await runSpeculatively(world)).toBe(2)
    expect(MAX_PASSED).toBe(2)
    await world.packet(block.flashblocks[2]!)
    expect(await runSpeculatively(world)).toBe(0)
  })

  test('is executed only between a block’s start and its last flashblock', async () => {
    const world = new WriterWorld()
    await world.apply({ type: 'feed', feed: 0, isConnected: true })
    expect(await runSpeculatively(world, x0.raw)).toBe(0)
    await world.packet(block.flashblocks[0]!)
    expect(await runSpeculatively(world)).toBe(1)
    for (const message of block.flashblocks.slice(1)) await world.packet(message)
    expect(await runSpeculatively(world, send(4, 0).raw)).toBe(0)
  })

  test('is one of a bounded number', async () => {
    const world = await started()
    const many = Array.from({ length: MAX_EXPECTED + 5 }, (_, nonce) => send(0, nonce).raw)
    expect(await runSpeculatively(world, ...many)).toBe(MAX_EXPECTED)
  })

  test('is tried less often the longer it does not come', async () => {
    const nonces = Array.from({ length: 12 }, (_, nonce) => nonce)
    const producer = createProducer()
    const lists = nonces.map((nonce) => [send(0, nonce)])
    const { flashblocks } = await producer.build(producer.genesis, 1, lists)
    const world = new WriterWorld()
    await world.apply({ type: 'feed', feed: 0, isConnected: true })
    const runs: number[] = []
    for (const message of flashblocks) {
      await world.packet(message)
      runs.push(
        await runSpeculatively(
          world,
          send(1 + (message.index % 4), 0, 5 + (message.index >> 2)).raw,
        ),
      )
    }
    expect(runs.map((count) => count > 0)).toEqual(
      [1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0].map(Boolean),
    )
    expect(world.heads().pending).toEqual([1, nonces.length])
  })
})

test('the sender of an expected transaction is known until a flashblock has it', () => {
  const expectations = createExpectations(() => 0)
  for (const { raw, from } of [x0, y0]) expectations.add({ raw, from })
  expectations.add({ raw: z0.raw })
  expect([x0, y0, z0].map(({ hash }) => expectations.senderOf(hash))).toEqual([
    x0.from,
    y0.from,
    undefined,
  ])
  expectations.settle([x0.hash])
  expect(expectations.senderOf(x0.hash)).toBe(undefined)
  expect(expectations.senderOf(y0.hash)).toEqual(y0.from)
})
