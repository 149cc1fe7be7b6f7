/**
 * Subblocks restate gas refunds for earlier transactions of their block, and everything that
 * depends on them follows.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readNewest } from '../../../engine/chain/view-reads.ts'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { devChain } from '../../../engine/chainspec/dev-genesis.ts'
import { NETWORKS, NEWEST_AT_0 } from '../../../engine/chainspec/networks.ts'
import { encodePacket } from '../../../engine/flashblocks/codec.ts'
import { subblockOf } from '../../../engine/flashblocks/subblock.ts'
import type { FeedMessage, Flashblock } from '../../../engine/flashblocks/types.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import type { GasRefund, SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { makePostExec, signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import { readAccount, readSlot } from '../../../engine/state/read.ts'
import { EmittedFlashblocks } from '../../../rpc/events/emitted-flashblocks.ts'
import { createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { publishBlock, seal } from '../../fixtures/writer-branches.ts'
import { digestOf, type WorldOptions, WriterWorld } from '../../fixtures/writer-world.ts'

const GENESIS = 1_700_000_000n
const chain = devChain({
  name: 'test',
  blockTime: 1,
  timestamp: GENESIS,
  parameters: NETWORKS.get('xlayer')!.parameters,
  schedule: { ...NEWEST_AT_0, karst: 0n, lagoon: GENESIS + 1n },
})
const producer = createProducer(chain)
const NUMBER = 2
const first = await producer.build(producer.genesis, 1, [[]])
const MIN_GAS = 21_000

/** Signs a creation that stores its creator's balance: SSTORE(0, BALANCE(ORIGIN)). */
const probe = (from: number, nonce: number): SignedTransaction =>
  signTransaction(
    {
      type: 2,
      chainId: chain.chainId,
      nonce: BigInt(nonce),
      to: undefined,
      value: 0n,
      gasLimit: 200_000n,
      input: hexToBytes('0x32315f5500'),
      accessList: [],
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 1n,
    },
    hexToBytes(DEV_ACCOUNTS[from]!.privateKey),
  )
/** The gas refunds by the index of the transaction; undefined: none is stated. */
type Stated = Readonly<Record<number, number>> | undefined
const refundsOf = (stated: Readonly<Record<number, number>>, count: number): GasRefund[] =>
  Object.entries(stated)
    .map(([index, gas]) => ({ index: BigInt(index), gasRefund: BigInt(gas) }))
    .filter(({ index }) => index < BigInt(count))
/** Makes the post-exec transaction; undefined: no refund is left. */
function postExecOf(stated: Stated, count: number) {
  const refunds = refundsOf(stated ?? {}, count)
  return refunds.length === 0 ? undefined : makePostExec(BigInt(NUMBER), refunds)
}
const buildWith = (lists: readonly (readonly SignedTransaction[])[], last: Stated) =>
  producer.build(first, 2, lists, postExecOf(last, 1 + lists.flat().length))

/** Counts the transactions up to the flashblock, including it. */
const countAt = (block: ProducedBlock, index: number) =>
  block.flashblocks
    .slice(0, index + 1)
    .reduce((sum, { delta }) => sum + delta.transactions.length, 0)
const subblock = (block: ProducedBlock, index: number, stated: Stated): Flashblock =>
  stating(subblockOf(block.flashblocks[index]!), block, stated)
/** Makes a flashblock with its hash and roots, and without a target index. */
const flashblock = (block: ProducedBlock, index: number, stated: Stated): Flashblock =>
  stating({ ...block.flashblocks[index]!, targetIndex: 0 }, block, stated)
function stating(message: Flashblock, block: ProducedBlock, stated: Stated): Flashblock {
  const { delta, ...rest } = message
  const { index } = rest
  const postExec = postExecOf(stated, countAt(block, index))
  if (postExec === undefined) return { ...rest, delta }
  // The message does not state whether the sums include the refunds.
  const sums = { gasUsed: delta.gasUsed - 1n, receiptsRoot: ZERO_32 }
  return { ...rest, delta: { ...delta, ...sums, postExec: postExec.raw } }
}
async function worldAfterFirst(options: WorldOptions = {}): Promise<WriterWorld> {
  const world = new WriterWorld({ chain, ...options })
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await publishBlock(world, first)
  await seal(world, first, byWord(first))
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(1)
  world.counts.clear()
  world.emitted = []
  return world
}
/** Gives the fields of a block that an upstream states. */
const byWord = ({ hash, header: { stateRoot, withdrawalsRoot } }: ProducedBlock) => ({
  hash,
  stateRoot,
  withdrawalsRoot,
})

/** Reads everything visible of the pending block. */
function visibleIn(world: WriterWorld) {
  const lease = world.reader.lease('flashblocks')
  const { view } = lease
  const block = view.block({ tag: 'pending' })!
  const state = view.state(block)
  const addresses = [
    ...DEV_ACCOUNTS.map(({ address }) => hexToBytes(address)),
    block.header.coinbase,
  ]
  const created = block.receipts().flatMap(({ contractAddress }) => contractAddress ?? [])
  const visible = {
    header: block.header,
    receipts: block.receipts(),
    hashes: block.transactionHashes(),
    accounts: addresses.map((address) => readAccount(state, address)),
    created: created.map((address) => [
      readAccount(state, address),
      readSlot(state, address, ZERO_32),
    ]),
    gas: block.receipts().map(({ gasUsed, gasRefund }) => [gasUsed, gasRefund]),
  }
  lease.release()
  return visible
}

/** A draw has subblocks, each with the senders of its transactions and its stated refunds. */
type Drawn = { readonly senders: readonly number[]; readonly stated: Stated }
const refunds: fc.Arbitrary<Stated> = fc.option(
  fc.dictionary(fc.integer({ min: 1, max: 6 }).map(String), fc.integer({ min: 1, max: MIN_GAS }), {
    minKeys: 1,
    maxKeys: 4,
  }),
  { nil: undefined, freq: 5 },
)
const drawn: fc.Arbitrary<readonly Drawn[]> = fc.array(
  // An even number sends, an odd one creates a contract.
  fc.record({ senders: fc.array(fc.nat(7), { maxLength: 2 }), stated: refunds }),
  { minLength: 1, maxLength: 5 },
)
function listsOf(all: readonly Drawn[]): SignedTransaction[][] {
  const nonces = [0, 0, 0, 0]
  return all.map(({ senders }) =>
    senders.map((one) => {
      const from = one >> 1
      return (one % 2 === 0 ? send : probe)(from, nonces[from]!++)
    }),
  )
}

describe('restated refunds', () => {
  test('have the result of refunds that were stated once', async () => {
    let restated = 0
    await fc.assert(
      fc.asyncProperty(drawn, fc.boolean(), fc.boolean(), async (all, isLazy, hasHashes) => {
        const last = all.at(-1)!.stated
        const block = await buildWith(listsOf(all), last)
        const next = await producer.build(block, 3, [])
        const [often, once] = [await worldAfterFirst({ isLazy }), await worldAfterFirst({ isLazy })]
        const make = hasHashes ? flashblock : subblock
        for (const index of block.flashblocks.keys()) {
          await often.packet(make(block, index, all[index - 1]?.stated))
          await once.packet(make(block, index, last))
        }
        for (const world of [often, once]) await world.settle()
        expect(often.heads().pending).toEqual([NUMBER, all.length])
        expect(visibleIn(often)).toEqual(visibleIn(once))
        restated += often.count('refunds_restated')
        expect(once.count('refunds_restated')).toBe(0)
        // The next base names the hash, after the End of a feed that states ends. The canonical
        // block adds nothing.
        if (hasHashes) await often.packet(block.end)
        await often.packet(subblockOf(next.flashblocks[0]!))
        await seal(once, block, byWord(block))
        for (const world of [often, once]) await world.settle({ ticks: true })
        expect(often.heads().complete).toEqual([NUMBER, bytesToHex(block.hash)])
        await seal(often, block, byWord(block))
        await often.settle({ ticks: true })
        for (const world of [often, once]) {
          expect(world.heads().canonical).toEqual([NUMBER, bytesToHex(block.hash)])
          expect(world.count('sealed_executed_whole')).toBe(0)
        }
        expect(often.persistence.ledger.stats().counts).toEqual(
          once.persistence.ledger.stats().counts,
        )
      }),
      { numRuns: 40 },
    )
    expect(restated).toBeGreaterThan(20)
  })

  const lists = [[send(0, 0), probe(0, 1)], [send(1, 0)]]
  const PROBE_GAS = async () => (await buildWith(lists, undefined)).flashblocks[1]!.delta.gasUsed
  async function visibleTwice(stated: readonly [Stated, Stated], options?: WorldOptions) {
    const block = await buildWith(lists, stated[1])
    const world = await worldAfterFirst(options)
    await world.packet(subblock(block, 0, undefined))
    await world.packet(subblock(block, 1, stated[0]))
    await world.settle()
    return { world, block, restate: () => world.packet(subblock(block, 2, stated[1])) }
  }

  test('change values that a later transaction has read', async () => {
    const { world, restate } = await visibleTwice([{ 1: 5_000 }, { 1: 7_000 }])
    const before = visibleIn(world)
    await restate()
    const after = visibleIn(world)
    expect(before.gas[1]).toEqual([16_000n, 5_000n])
    expect(after.gas[1]).toEqual([14_000n, 7_000n])
    expect(after.created).not.toEqual(before.created)
    expect(after.header.gasUsed).toBe((await PROBE_GAS()) - 7_000n + 21_000n)
  })

  test('make subscribers see changed receipts removed and emitted again', async () => {
    const { world, restate } = await visibleTwice([{ 2: 5_000 }, { 2: 7_000 }])
    const emitted = new EmittedFlashblocks()
    const read = () =>
      readNewest(world.reader, 'flashblocks', (view) => emitted.read(view, 8)).events
    read()
    await restate()
    const events = read().map((event) => {
      if (event.type === 'gap') throw new Error('a gap')
      const {
        first: from,
        end,
        index,
      } = event.type === 'added' ? event.flashblock : { ...event, index: event.flashblock.index }
      return [event.type, index, from, end]
    })
    // The deposit and the first transaction are unchanged.
    expect(events).toEqual([
      ['removed', 1, 2, 3],
      ['added', 0, 1, 1],
      ['added', 1, 2, 3],
      ['added', 2, 3, 4],
    ])
  })

  test('make change consumers get the block again, with all its flashblocks', async () => {
    const { world, restate } = await visibleTwice([{ 1: 5_000 }, { 1: 7_000 }], {
      emitsChanges: true,
    })
    world.emitted = []
    await restate()
    const changes = world.emitted.flatMap((effect) =>
      effect.type === 'changes' ? [effect.changes] : [],
    )
    expect(changes).toMatchObject([
      { removed: { above: 1 }, flashblocks: [{ index: 0 }, { index: 1 }, { index: 2 }] },
    ])
  })

  test('reset the withdrawals roots that no compared hash covers', async () => {
    const block = await buildWith(lists, { 1: 7_000 })
    const world = await worldAfterFirst()
    const rootAt = (index: number) => {
      const lease = world.reader.lease('flashblocks')
      const { payloadId } = block.flashblocks[0]!
      const flashblockId = { number: BigInt(NUMBER), index, payloadId }
      const { withdrawalsRoot } = lease.view.block({ flashblock: flashblockId })!.header
      lease.release()
      return withdrawalsRoot
    }
    await world.packet(flashblock(block, 0, undefined))
    await world.packet(flashblock(block, 1, undefined))
    expect(rootAt(1)).toEqual(block.header.withdrawalsRoot)
    await world.packet(flashblock(block, 2, { 1: 7_000 }))
    expect(world.count('refunds_restated')).toBe(1)
    for (const index of [0, 1, 2]) expect(rootAt(index)).toEqual(ZERO_32)
  })

  test('keep a waiting End, which is relayed once', async () => {
    const block = await buildWith(lists, { 1: 7_000 })
    const world = await worldAfterFirst()
    await world.apply({ type: 'feed', feed: 1, isConnected: true })
    const sent = async (feed: number, ...messages: readonly FeedMessage[]) => {
      for (const message of messages) {
        const raw = encodePacket(message, 'plain')
        const about = { digest: digestOf(message) + BigInt(feed), receivedAtMs: 0, raw }
        await world.apply({ type: 'packet', packet: { feed, message, ...about } })
      }
    }
    const [zero, one] = [flashblock(block, 0, undefined), flashblock(block, 1, { 1: 5_000 })]
    const wrong = { ...one, delta: { ...one.delta, logsBloom: new Uint8Array(256).fill(1) } }
    // The first feed has sent the whole block with one wrong flashblock.
    await sent(0, zero, wrong, flashblock(block, 2, { 1: 7_000 }), block.end)
    expect(world.heads().pending).toEqual([NUMBER, 0])
    const ends = () =>
      world.emitted.filter(
        (effect) => effect.type === 'relay' && effect.messageId.index === undefined,
      )
    await sent(1, one)
    expect(world.count('refunds_restated')).toBe(1)
    expect(ends()).toHaveLength(1)
    await sent(1, block.end)
    await world.settle()
    expect(world.heads().complete).toEqual([NUMBER, bytesToHex(block.hash)])
    expect(ends()).toHaveLength(1)
  })

  test('wait for missing state, and nothing changes until then', async () => {
    const { world, restate } = await visibleTwice([{ 1: 5_000 }, { 1: 7_000 }], { isMissing: true })
    world.known.clear()
    const before = visibleIn(world)
    await restate()
    expect(world.needs).toHaveLength(1)
    expect(visibleIn(world)).toEqual(before)
    await world.settle()
    expect(visibleIn(world).gas[1]).toEqual([14_000n, 7_000n])
  })

  test('that are invalid leave the visible block unchanged', async () => {
    const { world, block } = await visibleTwice([{ 1: 5_000 }, { 1: 7_000 }])
    await world.apply({ type: 'feed', feed: 1, isConnected: true })
    const before = visibleIn(world)
    await world.packet(subblock(block, 2, { 1: 21_001 }))
    await world.settle()
    expect(world.count('mismatch_transaction')).toBe(1)
    expect(visibleIn(world)).toEqual(before)
    // The other feed has the right flashblock.
    await world.packet(subblock(block, 2, { 1: 7_000 }), 99n, 1)
    expect(visibleIn(world).gas[1]).toEqual([14_000n, 7_000n])
  })
})

test('an unsafe block is replaced at its height by one with deposits only', async () => {
  const [full, alone] = [
    await buildWith([[send(0, 0)]], { 1: 5_000 }),
    await buildWith([], undefined),
  ]
  const world = await worldAfterFirst()
  for (const index of full.flashblocks.keys())
    await world.packet(subblock(full, index, { 1: 5_000 }))
  const next = await producer.build(full, 3, [[send(0, 1)]])
  for (const message of next.flashblocks) await world.packet(subblockOf(message))
  await world.settle()
  await seal(world, full, byWord(full))
  await world.settle({ ticks: true })
  expect(world.heads()).toMatchObject({ canonical: [2, bytesToHex(full.hash)], pending: [3, 1] })
  // Only the transactions differ: the block has the prevRandao of the block that it replaces.
  await seal(world, alone, byWord(alone))
  await world.settle({ ticks: true })
  expect(world.heads()).toMatchObject({
    canonical: [2, bytesToHex(alone.hash)],
    complete: [2, bytesToHex(alone.hash)],
  })
  expect(visibleIn(world).hashes).toHaveLength(1)
  const { dropped, kept } = world.persistence.ledger.stats().counts
  expect([dropped, kept]).toEqual([1, 0])
  // The chain goes on from the new block.
  const after = await producer.build(alone, 4, [[send(0, 0)]])
  await seal(world, after, byWord(after))
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual([3, bytesToHex(after.hash)])
})
