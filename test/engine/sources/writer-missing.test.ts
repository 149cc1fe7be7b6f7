/** State that nobody has yet: an event that meets it leaves nothing behind, and comes out as if it had been there. */
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

/** To an address that nobody has heard of. */
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
/** Until nothing is missing; gives how often something was. */
async function fetchAll(world: WriterWorld): Promise<number> {
  let rounds = 0
  while (await world.fetch()) rounds++
  return rounds
}

describe.each(ENGINE_NAMES)('on the %s engine', (name) => {
  const engine = engineByName(name)

  test('flashblocks come out as with the whole state, in few rounds', async () => {
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

  test('canonical blocks too, and reorgs', async () => {
    const world = await worldOf({ engine, limits: { sealedGraceMs: 0 } })
    for (const block of a.slice(0, 3)) await seal(world, block)
    expect(world.heads().canonical).toEqual(at(a[2]!))
    for (const block of b) await seal(world, block)
    expect(world.heads().canonical).toEqual(at(b[2]!))
    expect(world.count('need_canonical')).toBeGreaterThan(0)
  })
})

describe('while state is missing', () => {
  test('nothing of the event is there, those behind it wait, and the canonical chain goes on', async () => {
    const world = await worldOf()
    const before = world.heads()
    for (const message of [...a[0]!.flashblocks, a[0]!.end]) await world.packet(message)
    expect(world.heads()).toEqual(before)
    expect(world.needs).toMatchObject([{ type: 'need', for: 'flashblock' }])
    expect(world.writer.gauges()).toMatchObject({ held_frames: 3, feed_silent_ms: 0 })
    expect([...world.counts.keys()]).toEqual(['need_flashblock'])
    const [waiting] = world.needs.splice(0)
    await world.apply({ type: 'sealed', block: a[0]!.sealed })
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[0]!))
    // What waited is of no use any more.
    expect(world.writer.gauges()).toMatchObject({ held_frames: 0 })
    await world.apply({ type: 'fetched', request: waiting!.request })
    expect(world.heads()).toMatchObject({ canonical: at(a[0]!), complete: at(a[0]!) })
  })

  test('a flashblock in the middle waits the same way', async () => {
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

  test('what cannot be fetched is passed over, and the copy of another feed is tried', async () => {
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

  test('a source that does not answer is given up, a late answer changes nothing', async () => {
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

  test('a canonical block rests, and is tried again', async () => {
    const world = await worldOf({ limits: { fetchRestMs: 700, sealedGraceMs: 0 } })
    await world.apply({ type: 'sealed', block: a[0]!.sealed })
    await world.fetch('the source is away')
    expect([world.writer.wakeAtMs(), world.needs.length]).toEqual([700, 0])
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[0]!))
  })
})

test('a canonical block whose state cannot be had goes back to its source, with what came after it', async () => {
  const world = await worldOf({ limits: { fetchRests: 3, sealedGraceMs: 0 } })
  for (const block of a.slice(0, 2))
    await world.apply({ type: 'sealed', block: { ...block.sealed, hash: block.hash } })
  for (let rests = 0; rests < 3; rests++) {
    await world.fetch('its block is another one than ours')
    await world.tick()
  }
  const { hash } = a[0]!
  const refused = { type: 'refused', number: 1, hash, field: 'state' }
  expect(world.told.filter(({ type }) => type === 'refused')).toEqual([refused])
  expect(world.writer.gauges()).toMatchObject({ waiting_canonical_blocks: 0 })
  // Nobody has said that it is wrong: it may come again.
  await world.apply({ type: 'sealed', block: { ...a[0]!.sealed, hash } })
  await fetchAll(world)
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual(at(a[0]!))
})

test('what a source sent on a block before it heard that this one was dropped is not refused', async () => {
  const world = await worldOf({ limits: { fetchRests: 1, sealedGraceMs: 0 } })
  const send = ({ sealed, hash }: (typeof a)[number]) =>
    world.apply({ type: 'sealed', block: { ...sealed, hash } })
  await send(a[0]!)
  await world.fetch('its block is another one than ours')
  await send(a[1]!)
  await send(a[2]!)
  for (const block of a.slice(0, 3)) await send(block)
  await world.settle({ ticks: true })
  await fetchAll(world)
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual(at(a[2]!))
  const refused = world.told.flatMap((one) => (one.type === 'refused' ? [one.field] : []))
  expect([refused, world.count('sealed_detached')]).toEqual([['state'], 2])
})

test('a canonical block for which the queue is too short goes back to its source', async () => {
  const world = await worldOf({ limits: { sealedBlocks: 1, sealedGraceMs: 0 } })
  const send = ({ sealed, hash }: (typeof a)[number]) =>
    world.apply({ type: 'sealed', block: { ...sealed, hash } })
  for (const block of a.slice(0, 3)) await send(block)
  const refused = a.slice(1, 3).map(({ hash, sealed }) => {
    return { type: 'refused', number: sealed.number, hash, field: 'queue' }
  })
  expect(world.told.filter(({ type }) => type === 'refused')).toEqual(refused)
  for (const block of a.slice(0, 3)) {
    await fetchAll(world)
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(block))
    const next = a[block.sealed.number]
    if (next !== undefined && next.sealed.number <= 3) await send(next)
  }
})

describe('what one event may ask for is bounded', () => {
  test('in rounds: a flashblock is passed over then, a canonical block rests', async () => {
    const world = await worldOf({ limits: { sealedGraceMs: 0 } })
    // Answered, and not there all the same.
    const answer = async () => {
      let rounds = 0
      for (; world.needs.length > 0; rounds++)
        await world.apply({ type: 'fetched', request: world.needs.shift()!.request })
      return rounds
    }
    await world.packet(a[0]!.flashblocks[0]!)
    expect([await answer(), world.count('feed_unfetched')]).toEqual([16, 1])
    await world.apply({ type: 'sealed', block: a[0]!.sealed })
    expect([await answer(), world.count('sealed_unfetched')]).toEqual([16, 1])
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[0]!))
  })

  test('in keys: what was fetched is there the next time', async () => {
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

test('what is executed ahead and misses is asked for, and thrown away', async () => {
  const world = await worldOf()
  await world.packet(a[0]!.flashblocks[0]!)
  await fetchAll(world)
  const { raw, from } = send(0, 0)
  world.writer.expect({ raw, from })
  await world.apply({ type: 'ahead' })
  expect(world.needs).toMatchObject([{ for: 'flashblock' }])
  expect(world.writer.canRunAhead()).toBe(false)
  // Nobody waits for it.
  await world.packet(a[0]!.flashblocks[1]!)
  expect(world.needs).toHaveLength(2)
  await fetchAll(world)
  expect(world.heads().pending).toEqual([1, 1])
})
