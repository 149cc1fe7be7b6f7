/** A writer that applies what leaders tell: the same chain as by executing, and each wrong diff is found by the check that is for it. */
import { beforeAll, describe, expect, test } from 'vitest'
import { keccak256 } from '../../../../engine/primitives/keccak.ts'
import { concatBytes } from '../../../../engine/primitives/words.ts'
import { packOutcomes, unpackOutcomes } from '../../../../engine/sources/applying/outcomes.ts'
import type { ToldDiff } from '../../../../engine/sources/applying/types.ts'
import type { AccountChange } from '../../../../engine/state/diff.ts'
import { decodeDiff, encodeDiff } from '../../../../engine/state/diff-codec.ts'
import {
  createProducer,
  type ProducedBlock,
  type Producer,
  send,
} from '../../../fixtures/producer.ts'
import { droppedIn, lead, tell, toldOf, toldWhole } from '../../../fixtures/told.ts'
import { hex, type WorldOptions, WriterWorld } from '../../../fixtures/writer-world.ts'

const LIMITS = { applyMs: 100, verifyShare: 0 }
let producer: Producer
let blocks: ProducedBlock[]
let told: (readonly ToldDiff[])[]
beforeAll(async () => {
  producer = createProducer()
  const first = await producer.build(producer.genesis, 1, [[send(0, 0), send(1, 0)], [send(0, 1)]])
  const second = await producer.build(first, 2, [[send(2, 0)], [], [send(0, 2), send(3, 0)]])
  const third = await producer.build(second, 3, [[send(1, 1)]])
  blocks = [first, second, third]
  const parents = [producer.genesis, first, second]
  told = await Promise.all(blocks.map((block, at) => toldOf(parents[at]!, block)))
})

async function started(options: WorldOptions = {}, leaders = 1): Promise<WriterWorld> {
  const world = new WriterWorld({ ...options, limits: { ...LIMITS, ...options.limits } })
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await lead(world, leaders)
  return world
}
/** Flashblocks of a block with what a leader has told before each. */
async function play(world: WriterWorld, at: number, spoil = (one: ToldDiff) => one): Promise<void> {
  for (const [index, message] of blocks[at]!.flashblocks.entries()) {
    await tell(world, spoil(told[at]![index]!))
    await world.packet(message)
    // What waits in vain.
    while (world.writer.wakeAtMs() !== undefined && world.heads().pending[1] < index)
      await world.tick()
  }
  await world.packet(blocks[at]!.end)
}
/** As an upstream tells of it. */
async function sealRooted(world: WriterWorld, at: number): Promise<void> {
  const { hash, header, sealed } = blocks[at]!
  const { stateRoot, withdrawalsRoot } = header
  await world.apply({ type: 'sealed', block: { ...sealed, hash, stateRoot, withdrawalsRoot } })
  await world.settle({ ticks: true })
}
const taken = (world: WriterWorld) => [
  world.count('flashblock_applied'),
  world.count('flashblock_executed'),
]

test.each([
  ['whole state', {}],
  ['lazy state', { isLazy: true }],
  ['state that is fetched', { isLazy: true, isMissing: true }],
])('%s: a chain that is applied is the chain', async (_, options) => {
  const world = await started(options)
  for (const at of blocks.keys()) {
    for (const [index, message] of blocks[at]!.flashblocks.entries()) {
      await tell(world, told[at]![index]!)
      await world.packet(message)
      await world.settle()
    }
    await world.packet(blocks[at]!.end)
    await sealRooted(world, at)
  }
  expect(world.heads().canonical).toEqual([3, hex(blocks[2]!.hash)])
  expect(taken(world)).toEqual([9, 0])
  expect([world.count('sealed_executed_whole'), droppedIn(world)]).toEqual([0, []])
})

describe('a diff', () => {
  test('that comes late is waited for, and the frame taken then', async () => {
    const world = await started()
    await world.packet(blocks[0]!.flashblocks[0]!)
    expect(world.heads().pending[0]).toBe(0)
    await tell(world, told[0]![0]!)
    expect(world.heads().pending).toEqual([1, 0])
    expect(taken(world)).toEqual([1, 0])
  })
  test('that never comes: the flashblock is executed, in its order', async () => {
    const world = await started()
    await world.packet(blocks[0]!.flashblocks[0]!)
    await world.packet(blocks[0]!.flashblocks[1]!)
    await world.tick()
    expect([world.clock.ms, world.heads().pending]).toEqual([100, [1, 1]])
    expect(taken(world)).toEqual([0, 2])
  })
  test('after three in vain nothing waits, until the leader is in time again', async () => {
    const world = await started()
    for (const message of blocks[0]!.flashblocks) {
      await world.packet(message)
      await world.tick()
    }
    await world.packet(blocks[0]!.end)
    await world.settle({ ticks: true })
    expect(world.count('diff_missed')).toBe(3)
    await world.packet(blocks[1]!.flashblocks[0]!)
    expect(world.heads().pending).toEqual([2, 0])
    await tell(world, told[1]![0]!)
    await world.packet(blocks[1]!.flashblocks[1]!)
    expect(world.heads().pending).toEqual([2, 0])
    await tell(world, told[1]![1]!)
    expect(world.heads().pending).toEqual([2, 1])
  })
  test('of a leader that is lost is not waited for', async () => {
    const world = await started()
    await world.packet(blocks[0]!.flashblocks[0]!)
    await world.apply({ type: 'leader', leader: 0, isConnected: false })
    expect([world.clock.ms, world.heads().pending]).toEqual([0, [1, 0]])
  })
  test('that executing needed before is executed over, and the other way round', async () => {
    const world = await started()
    const [zero, one, two, three] = blocks[1]!.flashblocks
    await play(world, 0)
    await world.settle({ ticks: true })
    await tell(world, told[1]![0]!)
    await world.packet(zero!)
    await world.packet(one!)
    await world.tick()
    await tell(world, told[1]![2]!)
    await world.packet(two!)
    await world.packet(three!)
    await world.tick()
    await world.packet(blocks[1]!.end)
    await sealRooted(world, 0)
    await sealRooted(world, 1)
    expect(world.heads().canonical).toEqual([2, hex(blocks[1]!.hash)])
    expect(taken(world)).toEqual([5, 2])
    expect(world.count('sealed_executed_whole')).toBe(0)
  })
  test('of a block that no feed brings is taken too', async () => {
    const world = await started()
    await tell(world, await toldWhole(producer.genesis, blocks[0]!))
    await sealRooted(world, 0)
    expect(world.heads().canonical).toEqual([1, hex(blocks[0]!.hash)])
    expect(taken(world)).toEqual([1, 0])
  })
  test('of another flashblock of that place is passed over, and its leader stays', async () => {
    const world = await started()
    const { hash } = told[1]![0]!
    await tell(world, { ...told[0]![0]!, hash, hashes: new Uint8Array(64) })
    await world.packet(blocks[0]!.flashblocks[0]!)
    expect([taken(world), droppedIn(world)]).toEqual([[0, 1], []])
    expect(world.count('diff_other')).toBeGreaterThan(0)
  })
  test('of a second leader counts where the first one is wrong', async () => {
    const world = await started({}, 2)
    await tell(world, { ...told[0]![0]!, before: new Uint8Array(32) }, 0)
    await tell(world, told[0]![0]!, 1)
    await world.packet(blocks[0]!.flashblocks[0]!)
    expect(taken(world)).toEqual([1, 0])
    expect(droppedIn(world)).toEqual([[0, 'before']])
  })
})

test('a share is executed whatever is told, and compared, also with what is told later', async () => {
  const world = await started({ limits: { verifyShare: 1 } })
  await tell(world, told[0]![0]!)
  await world.packet(blocks[0]!.flashblocks[0]!)
  await world.packet(blocks[0]!.flashblocks[1]!)
  await tell(world, told[0]![1]!)
  expect(world.heads().pending).toEqual([1, 1])
  expect([...taken(world), world.count('flashblock_verified')]).toEqual([0, 2, 2])
})

const changed = (one: ToldDiff, change: (all: AccountChange[]) => readonly AccountChange[]) => ({
  ...one,
  changes: encodeDiff(change([...decodeDiff(one.changes)])),
})
/** The sender of transaction 0, which pays. */
const account = (one: ToldDiff, spoil: (after: AccountChange) => AccountChange) =>
  changed(one, (all) => {
    const at = all.findIndex(({ after }) => after !== undefined && after.nonce > 0n)
    all[at] = spoil(all[at]!)
    return all
  })
const receipt = (
  one: ToldDiff,
  spoil: (of: ReturnType<typeof unpackOutcomes>[number]) => object,
) => ({
  ...one,
  outcomes: packOutcomes(unpackOutcomes(one.outcomes).map((of) => ({ ...of, ...spoil(of) }))),
})
const flipped = (bytes: Uint8Array) => bytes.map((byte, at) => (at === 0 ? byte ^ 1 : byte))
const log = { address: new Uint8Array(20), topics: [], data: new Uint8Array(0) }

const FOUND: readonly (readonly [string, (one: ToldDiff) => ToldDiff, string])[] = [
  ['another parent', (one) => ({ ...one, parentHash: flipped(one.parentHash) }), 'parent'],
  ['another transaction', (one) => ({ ...one, hashes: flipped(one.hashes) }), 'transactions'],
  ['fewer transactions', (one) => ({ ...one, hashes: one.hashes.slice(32) }), 'transactions'],
  ['other values before', (one) => ({ ...one, before: flipped(one.before) }), 'before'],
  ['an account too few', (one) => changed(one, (all) => all.slice(1)), 'before'],
  [
    'an account too many',
    (one) =>
      changed(one, (all) => [
        ...all,
        { ...all[0]!, address: new Uint8Array(20).fill(9), slots: [] },
      ]),
    'before',
  ],
  [
    'a nonce',
    (one) => account(one, (change) => ({ ...change, after: { ...change.after!, nonce: 9n } })),
    'nonce',
  ],
  [
    'wei from nowhere',
    (one) =>
      account(one, (change) => ({
        ...change,
        after: { ...change.after!, balance: change.after!.balance + 1n },
      })),
    'balance',
  ],
  [
    'a code that is not told',
    (one) =>
      account(one, (change) => ({
        ...change,
        after: { ...change.after!, codeHash: keccak256(Uint8Array.of(1)) },
      })),
    'code',
  ],
  [
    'a status',
    (one) => receipt(one, ({ isSuccess }) => ({ isSuccess: !isSuccess })),
    'receiptsRoot',
  ],
  ['a log', (one) => receipt(one, () => ({ logs: [log] })), 'receiptsRoot'],
  [
    'gas',
    (one) =>
      receipt(one, ({ cumulativeGasUsed }) => ({ cumulativeGasUsed: cumulativeGasUsed + 1n })),
    'gasUsed',
  ],
  [
    'a sender',
    (one) => ({ ...one, senders: concatBytes(new Uint8Array(20).fill(9), one.senders.slice(20)) }),
    'account',
  ],
  [
    'two senders with one nonce, swapped',
    (one) => ({
      ...one,
      senders: concatBytes(one.senders.slice(20, 40), one.senders.slice(0, 20)),
    }),
    'sender',
  ],
  ['gas of one', (one) => receipt(one, ({ gasUsed }) => ({ gasUsed: gasUsed + 1n })), 'gasUsed'],
]

describe('what is wrong is found, and executed in its place', () => {
  test.each(FOUND)('%s', async (_, spoil, kind) => {
    const world = await started()
    await play(world, 0, (one) => (one.index === 1 ? spoil(one) : one))
    await sealRooted(world, 0)
    expect(droppedIn(world)).toEqual([[0, kind]])
    expect(taken(world)).toEqual([1, 2])
    expect(world.heads().canonical).toEqual([1, hex(blocks[0]!.hash)])
    expect([world.count('sealed_executed_whole'), world.count('canonical_mismatch')]).toEqual([
      0, 0,
    ])
    // Nothing of it is believed any more.
    await play(world, 1)
    expect(taken(world)).toEqual([1, 6])
  })
  test.each(FOUND.filter(([, , kind]) => kind !== 'balance' && kind !== 'nonce'))(
    'where it is executed all the same: %s',
    async (_, spoil) => {
      const world = await started({ limits: { verifyShare: 1 } })
      await play(world, 0, (one) => (one.index === 1 ? spoil(one) : one))
      expect(droppedIn(world).length).toBe(1)
      expect(world.heads().pending).toEqual([1, 2])
    },
  )
})

describe('what only the root tells is found at that block', () => {
  const SILENT: readonly (readonly [string, (one: ToldDiff) => ToldDiff])[] = [
    [
      'a balance',
      (one) =>
        account(one, (change) => ({
          ...change,
          after: { ...change.after!, balance: change.after!.balance - 1n },
        })),
    ],
    [
      'a slot',
      (one) =>
        changed(one, (all) =>
          all.map((change) => ({
            ...change,
            slots: change.slots.map((slot) => ({ ...slot, after: flipped(slot.after) })),
          })),
        ),
    ],
  ]
  test.each(SILENT)('%s', async (name, spoil) => {
    const world = await started()
    const index = name === 'a slot' ? 0 : 2
    const spoilt = spoil(told[0]![index]!)
    expect(spoilt.changes).not.toEqual(told[0]![index]!.changes)
    await play(world, 0, (one) => (one.index === index ? spoilt : one))
    await world.settle({ ticks: true })
    expect([droppedIn(world), taken(world)]).toEqual([[], [3, 0]])
    await sealRooted(world, 0)
    expect(droppedIn(world)).toEqual([[0, 'root']])
    expect(world.heads().canonical).toEqual([1, hex(blocks[0]!.hash)])
    expect(world.count('sealed_executed_whole')).toBe(1)
    expect(world.told.filter(({ type }) => type === 'refused' || type === 'halted')).toEqual([])
    await play(world, 1)
    await sealRooted(world, 1)
    expect(world.heads().canonical).toEqual([2, hex(blocks[1]!.hash)])
  })
  test('a code that is not that of a deposit, before all others', async () => {
    const world = await started({ limits: { verifyShare: 1 } })
    await tell(world, told[0]![0]!)
    await world.packet(blocks[0]!.flashblocks[0]!)
    await tell(world, told[0]![1]!)
    expect(droppedIn(world)).toEqual([])
  })
})
