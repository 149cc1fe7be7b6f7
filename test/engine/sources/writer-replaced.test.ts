/**
 * The persistence thread makes a block durable that replaces visible flashblocks. Meanwhile nothing
 * more of those, or on top of them, becomes visible.
 */
import { beforeAll, expect, test } from 'vitest'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, publishBlock } from '../../fixtures/writer-branches.ts'
import { hex, WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
beforeAll(async () => {
  ;({ a, b } = await createBranches())
})
const two = () => a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
const unannounced = () => two().map((message) => ({ ...message, targetIndex: 0 }))
const at = (block: ProducedBlock) => [block.number, hex(block.hash)]

/** Makes the upstream block of a follower. */
const upstreamBlock = ({
  upstreamBlock,
  hash,
  header: { stateRoot, withdrawalsRoot },
}: ProducedBlock) => ({
  ...upstreamBlock,
  hash,
  stateRoot,
  withdrawalsRoot,
})
/** Makes a world in which block 1 is canonical. */
async function worldOf(isLazy = false): Promise<WriterWorld> {
  const world = new WriterWorld({ isLazy })
  await world.apply({ type: 'sealed', block: upstreamBlock(a[0]!) })
  await world.settle()
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  return world
}
/** Runs until the persistence thread has the request to append, whose response is outstanding. */
async function submitted(world: WriterWorld, block: ProducedBlock): Promise<void> {
  await world.apply({ type: 'sealed', block: upstreamBlock(block) })
  while (!isAppending(world))
    if (!world.handleRequest() && !world.persistenceStep() && !(await world.deliverResponse()))
      break
  expect(isAppending(world)).toBe(true)
  world.emitted = []
}
const isAppending = ({ requests }: WriterWorld) => requests.some(({ type }) => type === 'append')
const published = ({ emitted }: WriterWorld) =>
  emitted.filter(({ type }) => type === 'published').length

test('the next flashblock of a payload that is being replaced stays invisible', async () => {
  const world = await worldOf()
  const [zero, one, last] = two()
  await world.packet(zero)
  await world.packet(one)
  await submitted(world, b[0]!)
  await world.packet(last)
  expect([world.heads().pending, published(world)]).toEqual([[2, 1], 0])
  expect(world.count('feed_stale')).toBe(1)
  await world.settle()
  expect(world.heads()).toMatchObject({ canonical: at(b[0]!), complete: at(b[0]!) })
  // The child goes on at once.
  await world.packet(b[1]!.flashblocks[0]!)
  expect(world.heads().pending).toEqual([3, 0])
})

test('a flashblock above a block that is being replaced stays invisible', async () => {
  const world = await worldOf()
  await publishBlock(world, a[1]!)
  const [zero, one] = a[2]!.flashblocks as [Flashblock, Flashblock]
  await world.packet(zero)
  await submitted(world, b[0]!)
  await world.packet(one)
  expect([world.heads().pending, published(world)]).toEqual([[3, 0], 0])
})

test('a payload on a block that is being replaced stays invisible', async () => {
  const world = await worldOf()
  await publishBlock(world, a[1]!)
  await submitted(world, b[0]!)
  await world.packet(a[2]!.flashblocks[0]!)
  await world.packet(b[1]!.flashblocks[0]!)
  expect(published(world)).toBe(0)
  await world.settle()
  // The flashblock on top has waited.
  expect(world.heads()).toMatchObject({ canonical: at(b[0]!), pending: [3, 0] })
  await world.packet(b[1]!.flashblocks[1]!)
  expect(world.heads().pending).toEqual([3, 1])
})

test('the root of a block that is being replaced does not complete it', async () => {
  const world = await worldOf()
  const [zero, one, last] = two()
  await world.packet(zero)
  await world.packet(one)
  await world.apply({ type: 'sealed', block: upstreamBlock(b[0]!) })
  // The canonical block waits for its own root.
  await world.packet(last)
  while (world.handleRequest() || world.persistenceStep()) {}
  while (await world.deliverResponse()) {}
  expect(isAppending(world)).toBe(true)
  expect(world.heads().complete).toEqual(at(a[0]!))
})

test.for([false, true])('a child does not complete a replaced block, lazy: %s', async (isLazy) => {
  const world = await worldOf(isLazy)
  for (const message of unannounced()) await world.packet(message)
  await submitted(world, b[0]!)
  await world.packet(a[2]!.flashblocks[0]!)
  const requested = world.requests.filter(({ type }) => type === 'root')
  expect([published(world), requested]).toEqual([0, []])
  await world.settle()
  expect(world.heads()).toMatchObject({ canonical: at(b[0]!), complete: at(b[0]!) })
})
