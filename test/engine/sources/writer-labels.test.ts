/** Readers see no safe or finalized label that a start after a crash would not find. */
import { beforeAll, expect, test } from 'vitest'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, seal, worldWith } from '../../fixtures/writer-branches.ts'
import type { WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
beforeAll(async () => {
  ;({ a } = await createBranches())
})

const published = (world: WriterWorld) => world.emitted.filter(({ type }) => type === 'published')

/** Reads safe and finalized, both as readers see them and as a start would find them. */
function labels(world: WriterWorld) {
  const lease = world.reader.lease('standard')
  const number = (tag: 'safe' | 'finalized') => Number(lease.view.block({ tag })!.number)
  const visible = [number('safe'), number('finalized')]
  lease.release()
  const { safe, finalized } = openStore(world.database).labelledHeads()
  return { visible, stored: [safe, finalized] }
}

/** Makes a world whose source names safe and finalized, after blocks without labels. */
async function labelledAt(blocks: number) {
  const world = await worldWith(a.slice(0, blocks), { limits: { safeLag: 64, finalizedLag: 64 } })
  await world.settle({ ticks: true })
  world.emitted = []
  return world
}

test('labelled heads follow the source up to canonical, visible once they are stored', async () => {
  const world = await labelledAt(3)
  await world.apply({ type: 'marks', safe: 2, finalized: 1 })
  expect(labels(world)).toEqual({ visible: [0, 0], stored: [0, 0] })
  expect(world.requests).toMatchObject([{ type: 'marks', safe: 2, finalized: 1 }])
  await world.apply({ type: 'marks', safe: 2, finalized: 1 })
  expect(world.requests).toHaveLength(1)
  world.handleRequest()
  expect(labels(world)).toEqual({ visible: [0, 0], stored: [2, 1] })
  expect(published(world)).toEqual([])
  await world.deliverResponse()
  expect(labels(world).visible).toEqual([2, 1])
  expect(published(world)).toHaveLength(1)
  await world.apply({ type: 'marks', safe: 9, finalized: 2 })
  expect(world.requests.at(-1)).toMatchObject({ type: 'marks', safe: 3, finalized: 2 })
  await world.settle()
  expect(labels(world)).toEqual({ visible: [3, 2], stored: [3, 2] })
})

test('labelled heads of a block are in its commit, even if they arrive during it', async () => {
  const world = await labelledAt(1)
  await world.apply({ type: 'marks', safe: 9, finalized: 9 })
  await world.settle()
  await seal(world, a[1]!)
  while (!world.requests.some(({ type }) => type === 'append')) {
    if (world.handleRequest() || (await world.deliverResponse()) || world.persistenceStep())
      continue
    if (!(await world.tick())) throw new Error('no block is submitted')
  }
  while (world.requests[0]!.type !== 'append') world.handleRequest()
  expect(world.requests[0]).toMatchObject({ labelledHeads: { safe: 2, finalized: 2 } })
  world.handleRequest()
  expect(labels(world)).toEqual({ visible: [1, 1], stored: [2, 2] })
  // A label that goes back in the meantime is not overwritten by the block's label.
  await world.apply({ type: 'marks', safe: 1, finalized: 1 })
  await world.settle()
  expect(labels(world)).toEqual({ visible: [1, 1], stored: [1, 1] })
})

test('a label that goes back is visible at once', async () => {
  const world = await labelledAt(3)
  await world.apply({ type: 'marks', safe: 3, finalized: 1 })
  await world.settle()
  await world.apply({ type: 'marks', safe: 2, finalized: 1 })
  expect(labels(world)).toEqual({ visible: [2, 1], stored: [3, 1] })
})

test('a label that goes back and forward again is visible once it is stored again', async () => {
  const world = await labelledAt(3)
  await world.apply({ type: 'marks', safe: 3, finalized: 2 })
  await world.settle()
  await world.apply({ type: 'marks', safe: 2, finalized: 1 })
  await world.apply({ type: 'marks', safe: 3, finalized: 2 })
  expect(labels(world).visible).toEqual([2, 1])
  world.handleRequest()
  expect(labels(world)).toEqual({ visible: [2, 1], stored: [2, 1] })
  await world.deliverResponse()
  expect(labels(world).visible).toEqual([2, 1])
  await world.settle()
  expect(labels(world)).toEqual({ visible: [3, 2], stored: [3, 2] })
})

test('frequent label changes leave two requests, and the newest labels are stored', async () => {
  const world = await labelledAt(3)
  for (let times = 0; times < 10; times++) {
    await world.apply({ type: 'marks', safe: 1, finalized: 0 })
    await world.apply({ type: 'marks', safe: 3, finalized: 1 })
  }
  expect(world.requests).toHaveLength(2)
  await world.apply({ type: 'marks', safe: 2, finalized: 1 })
  await world.settle()
  expect(labels(world)).toEqual({ visible: [2, 1], stored: [2, 1] })
})

test('a label that was visible as final is final after a crash at any step', async () => {
  const world = await labelledAt(3)
  await world.apply({ type: 'marks', safe: 3, finalized: 3 })
  for (const step of [() => {}, () => world.handleRequest(), () => world.deliverResponse()]) {
    await step()
    const { visible, stored } = labels(world)
    expect(stored[1]).toBeGreaterThanOrEqual(visible[1]!)
  }
  expect(labels(world)).toEqual({ visible: [3, 3], stored: [3, 3] })
})
