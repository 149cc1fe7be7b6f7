/** The follower reads our own chain, also during an unwind. */
import { expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { openArena, UNWINDS } from '../../../engine/views/arena.ts'
import { blockOf, hashOf, headAt, headOf } from '../../../workers/follower/own-chain.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { createBranches, worldWith } from '../../fixtures/writer-branches.ts'
import type { WriterWorld } from '../../fixtures/writer-world.ts'

/** Runs until the persistence thread has started to unwind blocks, before the writer knows. */
function untilTakenBack(world: WriterWorld): void {
  const unwinds = () => Atomics.load(openArena(world.views).words, UNWINDS)
  const before = unwinds()
  while (unwinds() === before)
    if (!world.handleRequest() && !world.persistenceStep()) throw new Error('nothing is taken back')
}

test('blocks are found by number and hash, but not during an unwind', async () => {
  const { a, b } = await createBranches()
  const world = await worldWith(a.slice(0, 5), { foldDepth: 1 })
  const { reader } = world
  const store = openStore(world.database)
  const find = () => ({
    hash: hashOf(reader, CHAIN, 2),
    named: blockOf(reader, a[0]!.hash)?.number,
    head: headAt(reader, store, Number.POSITIVE_INFINITY)?.number,
    second: headAt(reader, store, 2)?.hash,
  })
  expect(hashOf(reader, CHAIN, 6)).toBeUndefined()
  expect(hashOf(reader, CHAIN, -1)).toBeUndefined()
  expect(blockOf(reader, b[0]!.hash)).toBeUndefined()
  expect(headOf(reader)).toEqual({ number: 5, hash: bytesToHex(a[4]!.hash) })
  expect(find()).toEqual({
    hash: bytesToHex(a[1]!.hash),
    named: 1,
    head: 5,
    second: a[1]!.hash,
  })
  const { stateRoot, withdrawalsRoot } = b[0]!.header
  const block = { ...b[0]!.upstreamBlock, stateRoot, withdrawalsRoot }
  await world.apply({ type: 'sealed', block })
  while (world.requests.every(({ type }) => type !== 'append'))
    if (!world.handleRequest() && !(await world.deliverResponse())) await world.tick()
  untilTakenBack(world)
  // The head itself is still in a diff layer.
  expect(find()).toEqual({ hash: undefined, named: undefined, head: 5, second: undefined })
  await world.settle()
  expect(find()).toEqual({
    hash: bytesToHex(b[0]!.hash),
    named: 1,
    head: 2,
    second: b[0]!.hash,
  })
})
