/** While the keeper makes a block durable that takes the place of what flashblocks had shown, nothing more is shown of that, or on it. */
import { beforeAll, expect, test } from 'vitest'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, show } from '../../fixtures/writer-branches.ts'
import { hex, WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
beforeAll(async () => {
  ;({ a, b } = await createBranches())
})
const two = () => a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
const unannounced = () => two().map((message) => ({ ...message, targetIndex: 0 }))
const at = (block: ProducedBlock) => [block.number, hex(block.hash)]

/** As a follower has them. */
const sealed = ({ sealed, hash, header: { stateRoot, withdrawalsRoot } }: ProducedBlock) => ({
  ...sealed,
  ...{ hash, stateRoot, withdrawalsRoot },
})
/** Block 1 is canonical. */
async function worldOf(isLazy = false): Promise<WriterWorld> {
  const world = new WriterWorld({ isLazy })
  await world.apply({ type: 'sealed', block: sealed(a[0]!) })
  await world.settle()
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  return world
}
/** Until the keeper has been asked to append it: its answer is still to come. */
async function handed(world: WriterWorld, block: ProducedBlock): Promise<void> {
  await world.apply({ type: 'sealed', block: sealed(block) })
  while (!isAppending(world))
    if (!world.handleRequest() && !world.keeperStep() && !(await world.deliverAnswer())) break
  expect(isAppending(world)).toBe(true)
  world.told = []
}
const isAppending = ({ requests }: WriterWorld) => requests.some(({ type }) => type === 'append')
const published = ({ told }: WriterWorld) => told.filter(({ type }) => type === 'published').length

test('the next flashblock of the payload that it replaces', async () => {
  const world = await worldOf()
  const [zero, one, last] = two()
  await world.packet(zero)
  await world.packet(one)
  await handed(world, b[0]!)
  await world.packet(last)
  expect([world.heads().pending, published(world)]).toEqual([[2, 1], 0])
  expect(world.count('feed_stale')).toBe(1)
  await world.settle()
  expect(world.heads()).toMatchObject({ canonical: at(b[0]!), complete: at(b[0]!) })
  // What stands on it goes on at once.
  await world.packet(b[1]!.flashblocks[0]!)
  expect(world.heads().pending).toEqual([3, 0])
})

test('a flashblock of the payload above the block that it replaces', async () => {
  const world = await worldOf()
  await show(world, a[1]!)
  const [zero, one] = a[2]!.flashblocks as [Flashblock, Flashblock]
  await world.packet(zero)
  await handed(world, b[0]!)
  await world.packet(one)
  expect([world.heads().pending, published(world)]).toEqual([[3, 0], 0])
})

test('a payload that begins on the block that it replaces', async () => {
  const world = await worldOf()
  await show(world, a[1]!)
  await handed(world, b[0]!)
  await world.packet(a[2]!.flashblocks[0]!)
  await world.packet(b[1]!.flashblocks[0]!)
  expect(published(world)).toBe(0)
  await world.settle()
  // The one that stands on it has waited.
  expect(world.heads()).toMatchObject({ canonical: at(b[0]!), pending: [3, 0] })
  await world.packet(b[1]!.flashblocks[1]!)
  expect(world.heads().pending).toEqual([3, 1])
})

test('the root of the block that it replaces does not complete that', async () => {
  const world = await worldOf()
  const [zero, one, last] = two()
  await world.packet(zero)
  await world.packet(one)
  await world.apply({ type: 'sealed', block: sealed(b[0]!) })
  // The canonical block waits for its own root.
  await world.packet(last)
  while (world.handleRequest() || world.keeperStep()) {}
  while (await world.deliverAnswer()) {}
  expect(isAppending(world)).toBe(true)
  expect(world.heads().complete).toEqual(at(a[0]!))
})

test.for([false, true])('nor does the next block that stands on that, lazy: %s', async (isLazy) => {
  const world = await worldOf(isLazy)
  for (const message of unannounced()) await world.packet(message)
  await handed(world, b[0]!)
  await world.packet(a[2]!.flashblocks[0]!)
  const asked = world.requests.filter(({ type }) => type === 'root')
  expect([published(world), asked]).toEqual([0, []])
  await world.settle()
  expect(world.heads()).toMatchObject({ canonical: at(b[0]!), complete: at(b[0]!) })
})
