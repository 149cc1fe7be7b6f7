/** Without a trie, the next block states a block's hash, and the canonical block its roots. */
import { beforeAll, describe, expect, test } from 'vitest'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import { encodeAccount } from '../../../engine/state/account-codec.ts'
import { readAccount, readSlot } from '../../../engine/state/read.ts'
import type { PersistenceRequest } from '../../../engine/storage/types.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, seal } from '../../fixtures/writer-branches.ts'
import { hex, type WorldOptions, WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
let longer: ProducedBlock
beforeAll(async () => {
  ;({ a, b, longer } = await createBranches())
})

const CADENCE = 250
const at = (block: ProducedBlock) => [block.number, hex(block.hash)]
const upstreamBlock = ({ hash, header }: ProducedBlock) => ({
  hash,
  stateRoot: header.stateRoot,
  withdrawalsRoot: header.withdrawalsRoot,
})
const sealWithRoots = (world: WriterWorld, block: ProducedBlock) =>
  seal(world, block, upstreamBlock(block))

/** Makes a world in which block 1 is canonical. */
async function worldOf(options: WorldOptions = {}): Promise<WriterWorld> {
  const world = new WriterWorld({ isLazy: true, ...options })
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await sealWithRoots(world, a[0]!)
  await world.settle({ ticks: true })
  world.counts.clear()
  world.emitted = []
  return world
}
const stateRoot = (world: WriterWorld, number: number) => {
  const lease = world.reader.lease('flashblocks')
  const block = lease.view.block({ number: BigInt(number) })!
  const byHash = lease.view.block({ hash: block.hash, requireCanonical: false })!
  lease.release()
  expect(hex(byHash.header.stateRoot)).toBe(hex(block.header.stateRoot))
  return hex(block.header.stateRoot)
}
const unannounced = (block: ProducedBlock): Flashblock[] =>
  block.flashblocks.map((message) => ({ ...message, targetIndex: 0 }))

describe('the base of the next block', () => {
  test('gives a finished block its hash long before that is canonical', async () => {
    const world = await worldOf()
    for (const message of a[1]!.flashblocks) await world.packet(message)
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 2] })
    for (const message of a[2]!.flashblocks) await world.packet(message)
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 2] })
    expect(stateRoot(world, 2)).toBe(hex(ZERO_32))
    // No part has a trie for such requests.
    const isOfLedger = ({ type }: PersistenceRequest) => type === 'promise' || type === 'payload'
    expect(world.requests.filter((request) => !isOfLedger(request))).toEqual([])
    await sealWithRoots(world, a[1]!)
    expect(world.heads()).toMatchObject({
      canonical: at(a[1]!),
      complete: at(a[1]!),
      pending: [3, 2],
    })
    expect(stateRoot(world, 2)).toBe(hex(a[1]!.header.stateRoot))
    expect([world.count('sealed_executed_whole'), world.count('parent_unproven')]).toEqual([0, 0])
  })

  test('with a wrong parent hash gives way to the canonical block in one snapshot', async () => {
    const world = await worldOf()
    for (const message of a[1]!.flashblocks) await world.packet(message)
    const [zero] = a[2]!.flashblocks
    const base = { ...zero!.base!, parentHash: new Uint8Array(32).fill(9) }
    // The contents of the two blocks are right, but the base on the wrong hash is not.
    await world.packet({ ...zero!, base })
    expect(world.heads().complete).toEqual([2, hex(base.parentHash)])
    const publishes = () => world.emitted.filter(({ type }) => type === 'published').length
    const before = publishes()
    await sealWithRoots(world, a[1]!)
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), complete: at(a[1]!) })
    expect([publishes() - before, world.count('sealed_executed_whole')]).toEqual([1, 1])
    expect(world.emitted.filter(({ type }) => type === 'replaced')).toMatchObject([
      { number: 2, promised: base.parentHash, canonical: a[1]!.hash, lost: [] },
    ])
  })

  test.each([
    ['the parent', 2, true],
    ['a block that only the store has', 5, true],
    ['another block', 2, false],
  ])('with a wrong height leaves canonical alone: it names %s', async (_, height, isAncestor) => {
    const world = await worldOf({ foldDepth: 0, limits: { undoBlocks: 1 } })
    for (const block of a.slice(1, height - 1)) await sealWithRoots(world, block)
    await world.settle({ ticks: true })
    const block = a[height - 1]!
    for (const message of unannounced(block)) await world.packet(message)
    const [zero] = block.flashblocks
    const parentHash = isAncestor ? a[0]!.hash : new Uint8Array(32).fill(9)
    const base = { ...zero!.base!, blockNumber: BigInt(height + 1), parentHash }
    await world.packet({ ...zero!, payloadId: '0x0300000000000077', blockNumber: undefined, base })
    const named = isAncestor ? at(a[height - 2]!) : [height, hex(parentHash)]
    expect(world.heads().complete).toEqual(named)
    await sealWithRoots(world, block)
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(block))
    expect(world.emitted.filter(({ type }) => type === 'refused')).toEqual([])
  })

  test('that names the grandparent leaves a competing canonical block executable', async () => {
    const world = await worldOf()
    for (const message of a[1]!.flashblocks) await world.packet(message)
    const [zero] = a[2]!.flashblocks
    await world.packet({ ...zero!, base: { ...zero!.base!, parentHash: a[0]!.hash } })
    await sealWithRoots(world, b[0]!)
    await world.settle({ ticks: true })
    expect(world.emitted.filter(({ type }) => type === 'refused')).toEqual([])
    expect(world.heads().canonical).toEqual(at(b[0]!))
  })

  test('waits until a hole in the block is filled', async () => {
    const world = await worldOf()
    const [zero, one, two] = a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
    await world.packet(zero)
    await world.packet(one)
    await world.packet(a[2]!.flashblocks[0]!)
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 1] })
    await world.packet(two, 2n, 1)
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 0] })
  })

  test('waits until a block with a hole is canonical', async () => {
    const world = await worldOf()
    // The feed states ends.
    for (const message of a[0]!.flashblocks) await world.packet(message)
    await world.packet(a[1]!.flashblocks[0]!)
    for (const message of a[2]!.flashblocks) await world.packet(message)
    await sealWithRoots(world, a[1]!)
    await world.settle({ ticks: true })
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), pending: [3, 2] })
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  test('is believed, and counted, when the feed sends no Ends', async () => {
    const world = await worldOf()
    for (const message of unannounced(a[1]!)) await world.packet(message)
    await world.packet(a[2]!.flashblocks[0]!)
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 0] })
    expect(world.count('parent_unproven')).toBe(1)
  })

  test('is not believed when the feed sends Ends and this one is missing', async () => {
    const world = await worldOf()
    await world.packet(a[0]!.end)
    for (const message of unannounced(a[1]!)) await world.packet(message)
    await world.packet(a[2]!.flashblocks[0]!)
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 2] })
    await world.packet(a[1]!.end)
    await world.settle()
    await sealWithRoots(world, a[1]!)
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), pending: [3, 0] })
  })

  test('is not believed when the feed sent a later flashblock first', async () => {
    const world = await worldOf()
    const [zero, one] = unannounced(a[1]!) as [Flashblock, Flashblock]
    await world.packet(one)
    await world.packet(a[0]!.flashblocks[0]!)
    await world.packet(zero)
    await world.packet(a[1]!.end)
    await world.packet(a[2]!.flashblocks[0]!)
    expect(world.count('feed_short_end')).toBe(1)
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 0] })
  })

  test.each([
    ['after the block’s own', true, 1],
    ['after the block’s own, without a height', false, 1],
    ['before the block’s own, without a height', false, 0],
  ])('is not believed when the feed sent another payload %s', async (_, hasHeight, place) => {
    const world = await worldOf()
    const [zero] = unannounced(a[1]!) as [Flashblock]
    const blockNumber = hasHeight ? 2n : undefined
    const [, one] = unannounced(b[0]!) as [Flashblock, Flashblock]
    const other = { ...one, payloadId: '0x0300000000000077', blockNumber }
    for (const message of [zero, zero].toSpliced(place, 0, other)) await world.packet(message)
    await world.packet(a[2]!.flashblocks[0]!)
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 0] })
    await sealWithRoots(world, a[1]!)
    await world.settle({ ticks: true })
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), pending: [3, 0] })
  })

  test('is not believed while a flashblock of the block is buffered', async () => {
    const world = await worldOf({ isMissing: true })
    await world.apply({ type: 'feed', feed: 1, isConnected: true })
    for (const message of a[1]!.flashblocks) await world.packet(message)
    const [zero, one] = unannounced(a[2]!) as [Flashblock, Flashblock]
    await world.packet(zero)
    await world.packet(one, 1n, 1)
    await world.packet(a[1]!.end)
    await world.packet(zero, 2n, 1)
    await world.packet(a[2]!.end)
    await world.packet(a[3]!.flashblocks[0]!)
    expect(world.heads().pending[0]).toBe(1)
    while (await world.fetch()) {}
    expect(world.count('feed_lone_end')).toBe(1)
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 1] })
  })

  test('waits up to a cadence for the feed that sent the block', async () => {
    const world = await worldOf({ limits: { cadenceMs: CADENCE } })
    await world.apply({ type: 'feed', feed: 1, isConnected: true })
    for (const message of a[1]!.flashblocks) await world.packet(message)
    await world.packet(a[2]!.flashblocks[0]!, 7n, 1)
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 2] })
    const { ms } = world.clock
    await world.tick()
    expect(world.clock.ms - ms).toBe(CADENCE)
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 0] })
  })
})

describe('the canonical block', () => {
  test('gives a finished block its roots', async () => {
    const world = await worldOf()
    for (const message of a[1]!.flashblocks) await world.packet(message)
    await sealWithRoots(world, a[1]!)
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), complete: at(a[1]!) })
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  test('completes a block with missing flashblocks', async () => {
    const world = await worldOf()
    for (const message of longer.flashblocks.slice(0, 2)) await world.packet(message)
    await sealWithRoots(world, longer)
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(longer))
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  test('replaces a different block and everything above it', async () => {
    const world = await worldOf()
    for (const message of [...a[1]!.flashblocks, ...a[2]!.flashblocks]) await world.packet(message)
    await sealWithRoots(world, b[0]!)
    expect(world.heads()).toMatchObject({ canonical: at(b[0]!), complete: at(b[0]!) })
    expect(world.heads().pending[0]).toBe(2)
    const [replaced] = world.emitted.filter((effect) => effect.type === 'replaced')
    expect(replaced).toMatchObject({ number: 2, promised: a[1]!.hash, canonical: b[0]!.hash })
    expect(replaced?.lost).toHaveLength(6)
  })

  test('is refused without roots', async () => {
    const world = await worldOf()
    await seal(world, a[1]!, { hash: a[1]!.hash })
    await world.settle({ ticks: true })
    expect(world.emitted.filter(({ type }) => type === 'refused')).toMatchObject([
      { number: 2, field: 'stateRoot' },
    ])
  })

  test('is sampled: some keys that it wrote are reported with our values', async () => {
    const world = await worldOf({ limits: { checkedKeys: 5 } })
    for (const block of a.slice(1, 4)) await sealWithRoots(world, block)
    await world.settle({ ticks: true })
    const checks = world.emitted.filter((effect) => effect.type === 'check')
    expect(checks.map(({ number, hash }) => [number, hex(hash)])).toEqual(a.slice(1, 4).map(at))
    for (const { number, keys } of checks) {
      const { state } = a[number - 1]!
      expect(keys).toHaveLength(5)
      for (const { key, value } of keys) {
        const account = key.kind === 'account' ? readAccount(state, key.address) : undefined
        const ours =
          key.kind === 'account'
            ? account && encodeAccount(account)
            : readSlot(state, key.address, key.key)
        expect(hex(value ?? ZERO_32)).toBe(hex(ours ?? ZERO_32))
      }
    }
    const names = checks.map(({ keys }) => JSON.stringify(keys.map(({ key }) => key)))
    expect(new Set(names).size).toBe(3)
  })
})

test('a restart continues from the canonical head', async () => {
  const world = await worldOf()
  for (const block of a.slice(1, 5)) await sealWithRoots(world, block)
  await world.settle({ ticks: true })
  world.start()
  expect(world.heads().canonical).toEqual(at(a[4]!))
  await sealWithRoots(world, a[5]!)
  expect(world.heads().canonical).toEqual(at(a[5]!))
})

test('a resync drops what is visible above canonical, with a counted reason', async () => {
  const world = await worldOf()
  await world.packet(a[1]!.flashblocks[0]!)
  expect(world.heads().pending).toEqual([2, 0])
  const start = { headers: [], blocks: [], safe: 1, finalized: 1 }
  const head = { number: 7, hash: a[6]!.hash }
  await world.apply({ type: 'begin', head, start, why: 'our head is too old' })
  expect(world.heads()).toMatchObject({ canonical: at(a[0]!), complete: at(a[0]!) })
  expect(world.heads().pending[0]).toBe(1)
  expect(world.count('begins_anew')).toBe(1)
  expect(world.requests.map(({ type }) => type)).toContain('begin')
})
