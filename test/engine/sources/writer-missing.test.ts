/**
 * An event that meets missing state leaves no trace, and after the fetch has the result of complete
 * state.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { ENGINE_NAMES } from '../../../engine/evm/engines/names.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import { CHAIN, createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { createBranches, seal } from '../../fixtures/writer-branches.ts'
import { hex, type WorldOptions, WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
let wide: ProducedBlock
beforeAll(async () => {
  ;({ a, b } = await createBranches())
  const producer = createProducer()
  const many = Array.from({ length: 100 }, (_, nonce) => sendAnywhere(nonce))
  wide = await producer.build(producer.genesis, 9, [many.slice(0, 50), many.slice(50)])
})

const at = (block: ProducedBlock) => [block.number, hex(block.hash)]

/** Signs a transaction to an unknown address. */
function sendAnywhere(nonce: number): SignedTransaction {
  return signTransaction(
    {
      type: 2,
      chainId: CHAIN.chainId,
      nonce: BigInt(nonce),
      to: bigintToBytes(BigInt(nonce) + 10n ** 30n, 20),
      value: 1n,
      gasLimit: 21_000n,
      input: new Uint8Array(0),
      accessList: [],
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 1n,
    },
    hexToBytes(DEV_ACCOUNTS[0]!.privateKey),
  )
}

async function worldOf(options: WorldOptions = {}): Promise<WriterWorld> {
  const world = new WriterWorld({ isMissing: true, ...options })
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await world.apply({ type: 'feed', feed: 1, isConnected: true })
  return world
}
/** Fetches until nothing is missing, and counts the fetches. */
async function fetchAll(world: WriterWorld): Promise<number> {
  let rounds = 0
  while (await world.fetch()) rounds++
  return rounds
}

describe.each(ENGINE_NAMES)('missing state on the %s engine', (name) => {
  const engine = engineByName(name)

  test('is fetched in few rounds, with the flashblocks of complete state', async () => {
    const world = await worldOf({ engine })
    const rounds: number[] = []
    for (const message of wide.flashblocks) {
      await world.packet(message)
      rounds.push(await fetchAll(world))
      expect(world.heads().pending).toEqual([1, message.index])
    }
    await world.settle()
    expect(world.heads().complete).toEqual(at(wide))
    expect(Math.max(...rounds)).toBeLessThanOrEqual(name === 'fast' ? 6 : 8)
  })

  test('is fetched for canonical blocks and reorgs as well', async () => {
    const world = await worldOf({ engine, limits: { sealedGraceMs: 0 } })
    for (const block of a.slice(0, 3)) await seal(world, block)
    expect(world.heads().canonical).toEqual(at(a[2]!))
    for (const block of b) await seal(world, block)
    expect(world.heads().canonical).toEqual(at(b[2]!))
    expect(world.count('need_canonical')).toBeGreaterThan(0)
  })
})

describe('while state is missing,', () => {
  test('the event has no effect, later ones wait, and the canonical chain continues', async () => {
    const world = await worldOf()
    const before = world.heads()
    for (const message of [...a[0]!.flashblocks, a[0]!.end]) await world.packet(message)
    expect(world.heads()).toEqual(before)
    expect(world.needs).toMatchObject([{ type: 'need', for: 'flashblock' }])
    expect(world.writer.gauges()).toMatchObject({ held_frames: 3, feed_silent_ms: 0 })
    expect([...world.counts.keys()]).toEqual(['need_flashblock'])
    const [waiting] = world.needs.splice(0)
    await world.apply({ type: 'sealed', block: a[0]!.upstreamBlock })
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[0]!))
    // The waiting flashblocks have become useless.
    expect(world.writer.gauges()).toMatchObject({ held_frames: 0 })
    await world.apply({ type: 'fetched', request: waiting!.request })
    expect(world.heads()).toMatchObject({ canonical: at(a[0]!), complete: at(a[0]!) })
  })

  test('a flashblock in the middle of a block waits as well', async () => {
    const world = await worldOf()
    await world.packet(a[0]!.flashblocks[0]!)
    await fetchAll(world)
    for (const message of a[0]!.flashblocks.slice(1)) await world.packet(message)
    expect(world.heads().pending).toEqual([1, 0])
    await fetchAll(world)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[0]!))
    expect([world.count('feed_gap'), world.count('flush')]).toEqual([0, 0])
  })

  test('an event whose fetch fails is skipped, and another feed’s copy is tried', async () => {
    const world = await worldOf()
    const [zero, one, two] = a[0]!.flashblocks as [
      (typeof wide.flashblocks)[number],
      (typeof wide.flashblocks)[number],
      (typeof wide.flashblocks)[number],
    ]
    await world.packet(zero)
    await fetchAll(world)
    await world.packet(one)
    await world.packet(one, 5n, 1)
    await world.fetch('the source is away')
    expect(world.heads().pending).toEqual([1, 0])
    expect([world.count('feed_unfetched'), world.needs.length]).toEqual([1, 1])
    await fetchAll(world)
    await world.packet(two)
    await fetchAll(world)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[0]!))
  })

  test('a fetch without a response times out, and a late response does nothing', async () => {
    const world = await worldOf({ limits: { fetchMs: 400 } })
    await world.packet(a[0]!.flashblocks[0]!)
    const [need] = world.needs.splice(0)
    await world.tick()
    expect([world.clock.ms, world.count('feed_unfetched')]).toEqual([400, 1])
    await world.apply({ type: 'fetched', request: need!.request })
    await world.packet(a[0]!.flashblocks[0]!)
    await fetchAll(world)
    expect(world.heads().pending).toEqual([1, 0])
  })

  test('a canonical block backs off and is tried again', async () => {
    const world = await worldOf({ limits: { fetchBackoffMs: 700, sealedGraceMs: 0 } })
    await world.apply({ type: 'sealed', block: a[0]!.upstreamBlock })
    await world.fetch('the source is away')
    expect([world.writer.wakeAtMs(), world.needs.length]).toEqual([700, 0])
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[0]!))
  })
})

test('a canonical block without its state goes back to its source, with successors', async () => {
  const world = await worldOf({ limits: { fetchRetries: 3, sealedGraceMs: 0 } })
  for (const block of a.slice(0, 2))
    await world.apply({ type: 'sealed', block: { ...block.upstreamBlock, hash: block.hash } })
  for (let rests = 0; rests < 3; rests++) {
    await world.fetch('its block is another one than ours')
    await world.tick()
  }
  const { hash } = a[0]!
  const refused = { type: 'refused', number: 1, hash, field: 'state' }
  expect(world.emitted.filter(({ type }) => type === 'refused')).toEqual([refused])
  expect(world.writer.gauges()).toMatchObject({ waiting_canonical_blocks: 0 })
  // The block was not refused, so it may come again.
  await world.apply({ type: 'sealed', block: { ...a[0]!.upstreamBlock, hash } })
  await fetchAll(world)
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual(at(a[0]!))
})

test('successors of a block that went back to its source are detached, not refused', async () => {
  const world = await worldOf({ limits: { fetchRetries: 1, sealedGraceMs: 0 } })
  const send = ({ upstreamBlock, hash }: (typeof a)[number]) =>
    world.apply({ type: 'sealed', block: { ...upstreamBlock, hash } })
  await send(a[0]!)
  await world.fetch('its block is another one than ours')
  await send(a[1]!)
  await send(a[2]!)
  for (const block of a.slice(0, 3)) await send(block)
  await world.settle({ ticks: true })
  await fetchAll(world)
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual(at(a[2]!))
  const refused = world.emitted.flatMap((one) => (one.type === 'refused' ? [one.field] : []))
  expect([refused, world.count('sealed_detached')]).toEqual([['state'], 2])
})

test('a block without its competing parent goes back to its source without a halt', async () => {
  const world = await worldOf({ limits: { fetchRetries: 1, sealedGraceMs: 0 } })
  const send = ({ upstreamBlock, hash }: (typeof a)[number]) =>
    world.apply({ type: 'sealed', block: { ...upstreamBlock, hash } })
  for (const block of a.slice(0, 2)) await send(block)
  await fetchAll(world)
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual(at(a[1]!))
  // The second block of the other branch is absent, and its child has the next height.
  await send(b[1]!)
  await world.settle({ ticks: true })
  const refused = world.emitted.flatMap((one) => (one.type === 'refused' ? [one.field] : []))
  expect([refused, world.count('sealed_detached')]).toEqual([['parent'], 1])
  expect(world.emitted.filter(({ type }) => type === 'halted')).toEqual([])
})

test('canonical blocks beyond the queue limit go back to their source', async () => {
  const world = await worldOf({ limits: { sealedBlocks: 1, sealedGraceMs: 0 } })
  const send = ({ upstreamBlock, hash }: (typeof a)[number]) =>
    world.apply({ type: 'sealed', block: { ...upstreamBlock, hash } })
  for (const block of a.slice(0, 3)) await send(block)
  const refused = a.slice(1, 3).map(({ hash, upstreamBlock }) => {
    return { type: 'refused', number: upstreamBlock.number, hash, field: 'queue' }
  })
  expect(world.emitted.filter(({ type }) => type === 'refused')).toEqual(refused)
  for (const block of a.slice(0, 3)) {
    await fetchAll(world)
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(block))
    const next = a[block.upstreamBlock.number]
    if (next !== undefined && next.upstreamBlock.number <= 3) await send(next)
  }
})

describe('the fetches of one event are bounded', () => {
  test('in rounds: then a flashblock is skipped, and a canonical block backs off', async () => {
    const world = await worldOf({ limits: { sealedGraceMs: 0 } })
    // The fetch succeeds, but the state is still missing.
    const respond = async () => {
      let rounds = 0
      for (; world.needs.length > 0; rounds++)
        await world.apply({ type: 'fetched', request: world.needs.shift()!.request })
      return rounds
    }
    await world.packet(a[0]!.flashblocks[0]!)
    expect([await respond(), world.count('feed_unfetched')]).toEqual([16, 1])
    await world.apply({ type: 'sealed', block: a[0]!.upstreamBlock })
    expect([await respond(), world.count('sealed_unfetched')]).toEqual([16, 1])
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[0]!))
  })

  test('in keys: the next try finds what was fetched', async () => {
    const world = await worldOf({ limits: { fetchKeys: 3, sealedGraceMs: 0 } })
    await world.packet(a[0]!.flashblocks[0]!)
    await fetchAll(world)
    expect(world.count('feed_unfetched')).toBe(1)
    expect(world.count('need_flashblock')).toBe(3)
    await seal(world, a[0]!)
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[0]!))
    expect(world.count('sealed_unfetched')).toBeGreaterThan(1)
  })
})

test('speculative execution with missing state requests it and is discarded', async () => {
  const world = await worldOf()
  await world.packet(a[0]!.flashblocks[0]!)
  await fetchAll(world)
  const { raw, from } = send(0, 0)
  world.writer.expect({ raw, from })
  await world.apply({ type: 'ahead' })
  expect(world.needs).toMatchObject([{ for: 'flashblock' }])
  expect(world.writer.canSpeculate()).toBe(false)
  // No event waits for the flashblock.
  await world.packet(a[0]!.flashblocks[1]!)
  expect(world.needs).toHaveLength(2)
  await fetchAll(world)
  expect(world.heads().pending).toEqual([1, 1])
})
