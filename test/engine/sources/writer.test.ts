/**
 * The writer runs over real execution, diff layers and persistence thread: each kind of event
 * changes the heads.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import type { UpstreamBlock } from '../../../engine/chain/types.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import { FULL_BLOCK_INDEX } from '../../../engine/views/types.ts'
import { type ProducedBlock, send } from '../../fixtures/producer.ts'
import {
  canonical,
  createBranches,
  publishBlock,
  seal,
  worldWith,
} from '../../fixtures/writer-branches.ts'
import { hex, type WorldOptions, WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
let longer: ProducedBlock
let shorter: ProducedBlock
beforeAll(async () => {
  ;({ a, b, longer, shorter } = await createBranches())
})
const worldAt = (count: number, options: WorldOptions = {}) => worldWith(a.slice(0, count), options)

const at = (block: ProducedBlock) => [block.number, hex(block.hash)]
const spoilt = (message: Flashblock, delta: Partial<Flashblock['delta']>): Flashblock => ({
  ...message,
  delta: { ...message.delta, ...delta },
})
const halts = (world: WriterWorld) =>
  world.emitted.flatMap((effect) => (effect.type === 'halted' ? [effect] : []))

describe('a feed without faults', () => {
  test('makes a block pending, complete and canonical in one diff layer', async () => {
    const world = await worldAt(1)
    for (const message of a[1]!.flashblocks) {
      await world.packet(message)
      expect(world.heads().pending).toEqual([2, message.index])
    }
    expect(world.heads().complete).toEqual(at(a[0]!))
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
    await world.packet(a[1]!.end)
    await seal(world, a[1]!)
    expect(world.heads().canonical).toEqual(at(a[1]!))
    expect(Object.fromEntries(world.counts)).toEqual({
      feed_first_of_next_block: 1,
      feed_next: 2,
      feed_already_complete: 1,
      flashblock_executed: 3,
    })
    expect(world.emitted.map(({ type }) => type)).toEqual([
      'published',
      'published',
      'published',
      'published',
      'published',
      'sealed',
    ])
  })

  test('reports each transaction once, when it becomes visible', async () => {
    const world = await worldAt(0)
    await canonical(world, a[0]!)
    const visible = world.emitted.flatMap((effect) =>
      effect.type === 'published' ? effect.transactions : [],
    )
    expect(visible).toHaveLength(4)
    expect(new Set(visible.map(hex)).size).toBe(4)
  })

  test('without a last index completes a block by its End or by the next block', async () => {
    const world = await worldAt(0)
    for (const message of a[0]!.flashblocks) await world.packet({ ...message, targetIndex: 0 })
    await world.packet(a[0]!.end)
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[0]!))
    for (const message of a[1]!.flashblocks) await world.packet({ ...message, targetIndex: 0 })
    await world.packet(a[2]!.flashblocks[0]!)
    expect(world.heads().pending).toEqual([2, 2])
    await world.settle()
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 0] })
  })

  test('has packets of the next block buffered until this block has its root', async () => {
    const world = await worldAt(0)
    for (const message of [...a[0]!.flashblocks, ...a[1]!.flashblocks]) await world.packet(message)
    expect(world.heads().pending).toEqual([1, 2])
    expect(world.count('feed_held')).toBe(3)
    await world.settle()
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [2, 2] })
  })

  test('lets persist passes follow, and older blocks stay readable', async () => {
    const world = await worldAt(6)
    expect(world.writer.gauges()).toMatchObject({ fold_lag: 2, head_canonical: 6 })
    await canonical(world, a[6]!)
    expect(world.heads().canonical).toEqual(at(a[6]!))
  })
})

describe('a feed with faults', () => {
  test('changes nothing by duplicates and equivocations', async () => {
    const world = await worldAt(1)
    const [zero, one] = a[1]!.flashblocks as [Flashblock, Flashblock]
    for (const message of [zero, zero, one, zero]) await world.packet(message)
    await world.packet(spoilt(one, { blockHash: undefined, gasUsed: 1n }), 99n)
    expect(world.heads().pending).toEqual([2, 1])
    expect([world.count('feed_duplicate'), world.count('feed_equivocation')]).toEqual([2, 1])
  })

  test('with a gap keeps what is visible until the canonical block fills the gap', async () => {
    const world = await worldAt(1)
    const [zero, , two] = a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
    await world.packet(zero)
    await world.packet(two)
    await world.packet(two)
    expect([world.heads().pending, world.count('feed_gap')]).toEqual([[2, 0], 0])
    await world.tick()
    expect([world.heads().pending, world.count('feed_gap')]).toEqual([[2, 0], 1])
    for (const message of a[2]!.flashblocks) await world.packet(message)
    await world.settle()
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 0] })
    await seal(world, a[1]!)
    expect(world.heads()).toMatchObject({
      canonical: at(a[1]!),
      complete: at(a[2]!),
      pending: [3, 2],
    })
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  const wrong: [kind: string, change: (message: Flashblock) => Flashblock][] = [
    ['mismatch_gas_used', (message) => spoilt(message, { gasUsed: message.delta.gasUsed + 1n })],
    ['mismatch_receipts_root', (message) => spoilt(message, { receiptsRoot: ZERO_32 })],
    [
      'mismatch_logs_bloom',
      (message) => spoilt(message, { logsBloom: new Uint8Array(256).fill(1) }),
    ],
    ['mismatch_blob_gas_used', (message) => spoilt(message, { blobGasUsed: 77n })],
    [
      'mismatch_block_hash',
      (message) => spoilt(message, { blockHash: new Uint8Array(32).fill(7) }),
    ],
    ['mismatch_block_hash', (message) => spoilt(message, { withdrawalsRoot: undefined })],
    ['mismatch_transaction', (message) => spoilt(message, { transactions: [send(0, 99).raw] })],
    ['mismatch_transaction', (message) => spoilt(message, { transactions: [Uint8Array.of(2, 1)] })],
  ]
  test.each(wrong)('with %s drops pending, and the node continues', async (kind, change) => {
    const world = await worldAt(1)
    await world.packet(a[1]!.flashblocks[0]!)
    await world.packet(change(a[1]!.flashblocks[1]!))
    expect(world.heads().pending[0]).toBe(1)
    expect([
      world.count(kind),
      world.emitted.filter(({ type }) => type === 'warning').length,
    ]).toEqual([1, 1])
    await world.packet(a[1]!.flashblocks[2]!)
    await seal(world, a[1]!)
    await canonical(world, a[2]!)
    expect(world.heads().canonical).toEqual(at(a[2]!))
  })

  const wrongBase: [kind: string, change: Partial<Flashblock['base'] & object>][] = [
    ['mismatch_timestamp', { timestamp: 1n }],
    ['mismatch_base_fee', { baseFeePerGas: 1n }],
    ['mismatch_extra_data', { extraData: new Uint8Array(9) }],
  ]
  test.each(wrongBase)('with %s at index 0 does not start a block', async (kind, change) => {
    const world = await worldAt(1)
    const zero = a[1]!.flashblocks[0]!
    await world.packet({ ...zero, base: { ...zero.base!, ...change } })
    expect([world.count(kind), world.heads().pending[0]]).toEqual([1, 1])
  })

  test('without L1 attributes at index 0 does not start a block', async () => {
    const world = await worldAt(1)
    const zero = a[1]!.flashblocks[0]!
    await world.packet(spoilt(zero, { transactions: [send(0, 2).raw] }))
    expect([world.count('mismatch_first_transaction'), world.heads().pending[0]]).toEqual([1, 1])
  })

  test('with a second payload replaces the first, even a complete one', async () => {
    const world = await worldAt(1)
    await publishBlock(world, a[1]!)
    expect(world.heads().complete).toEqual(at(a[1]!))
    await world.packet(b[0]!.flashblocks[0]!)
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 0] })
    await world.packet(b[0]!.flashblocks[1]!)
    await seal(world, b[0]!)
    expect(world.heads().canonical).toEqual(at(b[0]!))
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  test('a second payload of a submitted block is ignored', async () => {
    const world = await worldAt(1)
    await publishBlock(world, a[1]!)
    await world.apply({ type: 'sealed', block: a[1]!.upstreamBlock })
    expect(world.requests.map(({ type }) => type)).toEqual(['append'])
    for (const message of b[0]!.flashblocks) await world.packet(message)
    await world.settle()
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), complete: at(a[1]!) })
    await canonical(world, a[2]!)
    expect(world.heads().canonical).toEqual(at(a[2]!))
  })

  test('that was disconnected completes no block by its End or by the next block', async () => {
    const world = await worldAt(1)
    const unannounced = a[1]!.flashblocks.map((message) => ({ ...message, targetIndex: 0 }))
    await world.packet(unannounced[0]!)
    await world.packet(unannounced[1]!)
    await world.apply({ type: 'feed', feed: 0, isConnected: false })
    await world.apply({ type: 'feed', feed: 0, isConnected: true })
    await world.packet(a[1]!.end)
    await world.settle()
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 1] })
    await world.packet(a[2]!.flashblocks[0]!)
    await world.settle()
    // The block's last flashblock was lost, so the hash that the next block names does not match.
    expect([world.heads().pending, world.count('mismatch_next_parent')]).toEqual([[2, 1], 1])
    await seal(world, a[1]!)
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), pending: [3, 0] })
  })
})

describe('a canonical block', () => {
  test('with more than the feed sent waits, and then extends the same diff layer', async () => {
    const world = await worldAt(1)
    await world.packet(longer.flashblocks[0]!)
    await world.packet(longer.flashblocks[1]!)
    await seal(world, longer)
    expect(world.heads()).toMatchObject({ canonical: at(a[0]!), pending: [2, 1] })
    await world.settle({ ticks: true })
    // The index is one that no feed may give to something else.
    expect(world.heads()).toMatchObject({ canonical: at(longer), pending: [2, FULL_BLOCK_INDEX] })
    expect([
      world.count('sealed_completed_flashblocks'),
      world.count('sealed_executed_whole'),
    ]).toEqual([1, 0])
    await world.packet(longer.flashblocks[2]!)
    expect(world.count('feed_stale')).toBe(1)
  })

  test('that arrives before the last flashblocks does not overtake them', async () => {
    const world = await worldAt(1)
    await world.packet(a[1]!.flashblocks[0]!)
    await seal(world, a[1]!)
    await world.packet(a[1]!.flashblocks[1]!)
    await world.packet(a[1]!.flashblocks[2]!)
    await world.settle()
    expect(world.heads().canonical).toEqual(at(a[1]!))
    expect(world.count('sealed_completed_flashblocks')).toBe(0)
  })

  test('is executed at once without a feed', async () => {
    const world = new WriterWorld()
    for (const block of a.slice(0, 3)) await seal(world, block)
    expect(world.heads().canonical).toEqual(at(a[2]!))
    expect(world.count('sealed_executed_whole')).toBe(3)
  })

  test('replaces a different block that is pending or complete', async () => {
    const world = await worldAt(1)
    await publishBlock(world, a[1]!)
    await world.packet(a[2]!.flashblocks[0]!)
    await seal(world, shorter)
    expect(world.heads()).toEqual({
      canonical: at(shorter),
      complete: at(shorter),
      pending: [2, expect.anything()],
    })
    expect(world.count('reconcile_replaced')).toBe(1)
    await world.packet(a[2]!.flashblocks[1]!)
    expect(world.heads().pending[0]).toBe(2)
  })

  test('that comes again is known', async () => {
    const world = await worldAt(4)
    await seal(world, a[3]!)
    await seal(world, a[0]!)
    expect([world.count('sealed_known'), world.heads().canonical]).toEqual([2, at(a[3]!)])
  })

  test('of another branch replaces blocks that are not persisted', async () => {
    const world = await worldAt(3)
    await world.packet(a[3]!.flashblocks[0]!)
    for (const block of b) {
      await seal(world, block)
      await world.settle({ ticks: true })
    }
    expect(world.heads()).toEqual({
      canonical: at(b[2]!),
      complete: at(b[2]!),
      pending: [4, expect.anything()],
    })
    expect(world.count('unfold')).toBe(0)
  })

  test('below the persisted head unwinds if its source gives the roots', async () => {
    const world = await worldAt(5, { foldDepth: 1 })
    const lease = world.reader.lease('standard')
    const { stateRoot, withdrawalsRoot } = b[0]!.header
    await seal(world, b[0]!)
    expect(halts(world)).toHaveLength(1)
    expect(world.heads().canonical).toEqual(at(a[4]!))
    await seal(world, b[0]!, { stateRoot, withdrawalsRoot })
    expect(() =>
      lease.view
        .state(lease.view.block({ tag: 'latest' })!)
        .account(new Uint32Array(5), new Uint32Array(18), 0),
    ).toThrow('unwound')
    lease.release()
    expect([world.heads().canonical, world.count('unfold')]).toEqual([at(b[0]!), 1])
    await seal(world, b[1]!)
    await canonical(world, b[2]!)
    expect(world.heads().canonical).toEqual(at(b[2]!))
  })

  const denied: [field: string, change: (block: ProducedBlock) => Partial<UpstreamBlock>][] = [
    ['stateRoot', () => ({ stateRoot: ZERO_32 })],
    ['gasUsed', () => ({ gasUsed: 1n })],
    ['receiptsRoot', () => ({ receiptsRoot: ZERO_32 })],
    ['logsBloom', () => ({ logsBloom: new Uint8Array(256).fill(1) })],
    ['baseFee', () => ({ baseFee: 1n })],
    ['parentHash', () => ({ parentHash: ZERO_32 })],
    [
      'transaction',
      ({ upstreamBlock }) => ({ transactions: [...upstreamBlock.transactions, send(0, 99).raw] }),
    ],
  ]
  test.each(denied)(
    'with a wrong %s halts at its parent with both values, and may come again',
    async (field, change) => {
      for (const isVisible of [true, false]) {
        const world = await worldAt(1)
        if (isVisible) await publishBlock(world, a[1]!)
        await seal(world, a[1]!, change(a[1]!))
        await world.settle({ ticks: true })
        expect(halts(world)).toEqual([
          {
            type: 'halted',
            isFatal: false,
            message: expect.stringMatching(
              new RegExp(`^canonical block 2: ${field} is .+ here, .+ at its source$`),
            ),
          },
        ])
        expect(world.heads()).toMatchObject({
          canonical: at(a[0]!),
          pending: [1, expect.anything()],
        })
        await seal(world, a[1]!)
        await world.settle({ ticks: true })
        expect(world.heads().canonical).toEqual(at(a[1]!))
      }
    },
  )
})

test('a restart publishes the durable chain and continues', async () => {
  const world = await worldAt(3)
  await publishBlock(world, a[3]!)
  world.start()
  expect(world.heads()).toEqual({
    canonical: at(a[2]!),
    complete: at(a[2]!),
    pending: [3, expect.anything()],
  })
  await world.settle()
  await canonical(world, a[3]!)
  for (const block of a.slice(4)) await seal(world, block)
  expect(world.heads().canonical).toEqual(at(a[6]!))
})

describe('a block that another engine executes differently', () => {
  const reason = 'block 1 has another gasUsed on the reference engine'

  test('drops pending and stops the writer', async () => {
    const world = await worldAt(1)
    for (const message of a[1]!.flashblocks) await world.packet(message)
    expect(world.heads().pending[0]).toBe(2)
    await world.apply({ type: 'distrust', reason })
    expect(world.heads()).toMatchObject({ canonical: at(a[0]!), complete: at(a[0]!) })
    expect(world.heads().pending[0]).toBe(1)
    expect(halts(world)).toEqual([{ type: 'halted', message: reason, isFatal: false }])
    for (const message of a[1]!.flashblocks) await world.packet(message)
    await seal(world, a[1]!)
    await world.settle()
    expect(world.writer.canSpeculate()).toBe(false)
    expect(world.heads()).toMatchObject({ canonical: at(a[0]!), complete: at(a[0]!) })
    expect(world.heads().pending[0]).toBe(1)
  })
})
