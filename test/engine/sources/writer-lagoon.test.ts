/**
 * A follower on Lagoon gets blocks that end with a post-exec transaction, and blocks with wrong
 * refunds.
 */
import { describe, expect, test } from 'vitest'
import { devChain } from '../../../engine/chainspec/dev-genesis.ts'
import { NETWORKS, NEWEST_AT_0 } from '../../../engine/chainspec/networks.ts'
import { decodePacket, encodePacket } from '../../../engine/flashblocks/codec.ts'
import { isSameFlashblock } from '../../../engine/flashblocks/identity.ts'
import { subblockOf } from '../../../engine/flashblocks/subblock.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type {
  PostExecTransaction,
  SignedTransaction,
} from '../../../engine/primitives/transaction.ts'
import { makePostExec } from '../../../engine/primitives/transaction-codec.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import { createProducer, type ProducedBlock, type Producer, send } from '../../fixtures/producer.ts'
import { publishBlock, seal, worldWith } from '../../fixtures/writer-branches.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const GENESIS = 1_700_000_000n
/** Block 2 is the first one of Lagoon. */
const chain = devChain({
  name: 'test',
  blockTime: 1,
  timestamp: GENESIS,
  parameters: NETWORKS.get('xlayer')!.parameters,
  schedule: { ...NEWEST_AT_0, karst: 0n, lagoon: GENESIS + 2n },
})
const producer = createProducer(chain)
const refund = (block: number, gasRefund: bigint) =>
  makePostExec(BigInt(block), [{ index: 1n, gasRefund }])

type Of = { readonly list: readonly SignedTransaction[]; readonly gasRefund?: bigint }
/** Builds blocks 1, 2 and so on. */
async function blocksOf(...all: readonly Of[]): Promise<ProducedBlock[]> {
  const blocks: ProducedBlock[] = []
  let parent: Producer['genesis'] = producer.genesis
  for (const [at, { list, gasRefund }] of all.entries()) {
    const last = gasRefund === undefined ? undefined : refund(at + 1, gasRefund)
    const block = await producer.build(parent, at + 1, [list], last)
    blocks.push(block)
    parent = block
  }
  return blocks
}
const THREE = [{ list: [] }, { list: [] }, { list: [send(0, 0)], gasRefund: 4_000n }]

test.each(['canonical', 'flashblocks before'])('gas refunds are accepted: %s', async (way) => {
  const [first, second, third, fourth] = await blocksOf(...THREE, { list: [send(0, 1)] })
  const world = await worldWith([first!, second!], { chain })
  expect(world.heads().canonical[0]).toBe(2)
  if (way !== 'canonical') await publishBlock(world, third!)
  await seal(world, third!, { hash: third!.hash })
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual([3, bytesToHex(third!.hash)])
  // The fourth block is executed on the state of the third.
  await seal(world, fourth!, { hash: fourth!.hash })
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(4)
})

test('a first Lagoon block with a signed transaction is refused', async () => {
  const [first, second] = await blocksOf({ list: [] }, { list: [send(0, 0)] })
  const world = await worldWith([first!], { chain })
  await seal(world, second!)
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(1)
})

test.each([
  ['of another block', 4, 4_000n, 'a post-exec transaction of block 4 in block 3'],
  ['above the gas', 3, 21_001n, 'a gas refund of 21001 for 21000 used'],
])('a block with refunds %s is refused', async (_, number, gasRefund, why) => {
  const [first, second, third] = await blocksOf(...THREE)
  const world = await worldWith([first!, second!], { chain })
  const transactions = [
    ...third!.upstreamBlock.transactions.slice(0, -1),
    refund(number, gasRefund).raw,
  ]
  // The first refusal makes the tracker fetch the block again.
  for (let times = 0; times < 2; times++)
    await seal(world, third!, { hash: third!.hash, transactions })
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(2)
  expect(world.emitted.filter(({ type }) => type === 'halted')).toMatchObject([
    { message: expect.stringContaining(why) },
  ])
})

/** Gives the fields of a block that an upstream states. */
const byWord = ({ hash, header: { stateRoot, withdrawalsRoot } }: ProducedBlock) => ({
  hash,
  stateRoot,
  withdrawalsRoot,
})
/** Reads the used and refunded gas of the signed transactions of pending. */
function gasIn(world: WriterWorld) {
  const lease = world.reader.lease('flashblocks')
  const receipts = lease.view.block({ tag: 'pending' })!.receipts().slice(1)
  lease.release()
  return receipts.map(({ gasUsed, gasRefund }) => [gasUsed, gasRefund])
}

describe('subblocks with refunds', () => {
  const stated = (block: ProducedBlock, postExec: PostExecTransaction) =>
    block.flashblocks.map((flashblock): Flashblock => {
      const { delta, ...rest } = subblockOf(flashblock)
      if (rest.index === 0) return { ...rest, delta }
      // The message does not state whether the sums include the refunds.
      const sums = { gasUsed: delta.gasUsed - 4_000n, receiptsRoot: ZERO_32 }
      return { ...rest, delta: { ...delta, ...sums, postExec: postExec.raw } }
    })

  test.each([
    ['whole', false],
    ['lazy', true],
  ])('are visible with them, and the next base gives the block’s hash: %s', async (_, isLazy) => {
    const [first, second, third, fourth] = await blocksOf(...THREE, { list: [send(0, 1)] })
    const world = new WriterWorld({ chain, isLazy })
    await world.apply({ type: 'feed', feed: 0, isConnected: true })
    for (const block of [first!, second!]) await seal(world, block, byWord(block))
    await world.settle({ ticks: true })
    world.counts.clear()
    for (const message of stated(third!, refund(3, 4_000n))) await world.packet(message)
    await world.settle({ ticks: true })
    expect(world.heads().pending).toEqual([3, 1])
    expect(gasIn(world)).toEqual([[17_000n, 4_000n]])
    // A payload on another hash is not executed, and nothing is added.
    const next = subblockOf(fourth!.flashblocks[0]!)
    const base = { ...next.base!, parentHash: fourth!.hash }
    if (!isLazy) await world.packet({ ...next, payloadId: '0x0000000000000077', base })
    await world.settle({ ticks: true })
    expect(world.heads().pending).toEqual([3, 1])
    expect(world.heads().complete[0]).toBe(2)
    await world.packet(next)
    await world.settle({ ticks: true })
    expect(world.heads()).toMatchObject({
      pending: [4, 0],
      complete: [3, bytesToHex(third!.hash)],
    })
    await seal(world, third!, byWord(third!))
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual([3, bytesToHex(third!.hash)])
    expect(world.heads().pending).toEqual([4, 0])
    const unwanted = /executed_whole|mismatch|replaced|flush/
    expect([...world.counts.keys()].filter((what) => unwanted.test(what))).toEqual([])
    expect(world.count('sealed_completed_flashblocks')).toBe(0)
  })

  const TWO = [
    { index: 1n, gasRefund: 4_000n },
    { index: 2n, gasRefund: 100n },
  ]
  test.each<[what: string, first: bigint]>([
    ['adds a refund', 4_000n],
    ['changes an earlier refund', 3_999n],
  ])('are updated when a later subblock %s', async (_, gasRefund) => {
    const [first, second] = await blocksOf({ list: [] }, { list: [] })
    const lists = [[send(0, 0)], [send(0, 1)]]
    const last = makePostExec(3n, TWO)
    const third = await producer.build(second!, 3, lists, last)
    const world = await worldWith([first!, second!], { chain })
    const [zero, one] = stated(third, refund(3, gasRefund))
    for (const message of [zero!, one!]) await world.packet(message)
    expect(gasIn(world)).toEqual([[21_000n - gasRefund, gasRefund]])
    await world.packet(stated(third, last)[2]!)
    await world.settle({ ticks: true })
    expect(world.heads().pending).toEqual([3, 2])
    expect(gasIn(world)).toEqual([
      [17_000n, 4_000n],
      [20_900n, 100n],
    ])
    await seal(world, third, byWord(third))
    expect(world.heads().canonical).toEqual([3, bytesToHex(third.hash)])
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  const NONE = [21_000n, 0n]
  test.each<[what: string, isStated: boolean, gas: readonly (readonly bigint[])[]]>([
    [
      'the next subblock states refunds',
      true,
      [
        [17_000n, 4_000n],
        [20_900n, 100n],
      ],
    ],
    ['the next subblock states no refunds', false, [NONE, NONE]],
  ])('keep the earlier refunds after a refused subblock: %s', async (_, isStated, gas) => {
    const [first, second] = await blocksOf({ list: [] }, { list: [] })
    const last = makePostExec(3n, TWO)
    const third = await producer.build(second!, 3, [[send(0, 0)], [send(0, 1)]], last)
    const world = await worldWith([first!, second!], { chain })
    await world.apply({ type: 'feed', feed: 1, isConnected: true })
    const [zero, one] = stated(third, refund(3, 4_000n))
    const two = stated(third, last)[2]!
    const tooMuch = makePostExec(3n, [TWO[0]!, { index: 2n, gasRefund: 21_001n }])
    const wrong = { ...two, delta: { ...two.delta, postExec: tooMuch.raw } }
    for (const message of [zero!, one!, wrong]) await world.packet(message)
    expect(world.count('mismatch_transaction')).toBe(1)
    expect(gasIn(world)).toEqual([[17_000n, 4_000n]])
    const next = isStated ? two : subblockOf(third.flashblocks[2]!)
    await world.packet(next, 99n, 1)
    await world.settle({ ticks: true })
    expect(gasIn(world)).toEqual(gas)
  })

  test('get the block’s hash from the End or from the canonical block', async () => {
    const [first, second, third] = await blocksOf(...THREE)
    const world = await worldWith([first!, second!], { chain })
    const [zero, one] = stated(third!, refund(3, 4_000n))
    for (const message of [zero!, one!]) await world.packet(message)
    await world.settle()
    await seal(world, third!)
    expect(world.heads().canonical).toEqual([3, bytesToHex(third!.hash)])
    const other = await worldWith([first!, second!], { chain })
    for (const message of [zero!, { ...one!, targetIndex: 1 }, third!.end])
      await other.packet(message)
    await other.settle({ ticks: true })
    expect(other.heads().complete).toEqual([3, bytesToHex(third!.hash)])
  })

  test.each([
    ['whole', false],
    ['lazy', true],
  ])('report the last transaction with the snapshot that has it: %s', async (_, isLazy) => {
    const [first, second, third] = await blocksOf(...THREE)
    const world = new WriterWorld({ chain, isLazy, emitsChanges: true })
    await world.apply({ type: 'feed', feed: 0, isConnected: true })
    for (const block of [first!, second!]) await seal(world, block, byWord(block))
    await world.settle({ ticks: true })
    const [zero, one] = stated(third!, refund(3, 4_000n))
    await world.packet(zero!)
    world.emitted = []
    // No root was computed, and no canonical block has come.
    await world.packet({ ...one!, targetIndex: 1 })
    const lease = world.reader.lease('flashblocks')
    const { transactionCount, hash } = lease.view.block({ tag: 'pending' })!
    lease.release()
    expect(transactionCount).toBe(3)
    const reported = world.emitted.flatMap((effect) =>
      effect.type === 'published' ? effect.transactions.map(bytesToHex) : [],
    )
    expect(reported).toEqual([send(0, 0), refund(3, 4_000n)].map(({ hash }) => bytesToHex(hash)))
    const changes = world.emitted.findLast(({ type }) => type === 'changes')
    expect(changes).toMatchObject({
      changes: { heads: { pending: { hash: bytesToHex(hash) } } },
    })
  })

  test('are refused for another block’s refunds, and before Lagoon', async () => {
    const [first, second, third] = await blocksOf(...THREE)
    const world = await worldWith([first!, second!], { chain })
    for (const message of stated(third!, refund(4, 4_000n))) await world.packet(message)
    await world.settle({ ticks: true })
    expect(world.count('mismatch_post_exec_number')).toBe(1)
    const early = await worldWith([], { chain })
    const [zero] = stated(first!, refund(1, 1n))
    await early.packet({ ...zero!, delta: { ...zero!.delta, postExec: refund(1, 1n).raw } })
    await early.settle({ ticks: true })
    expect(early.count('mismatch_post_exec')).toBe(1)
  })

  test('are different flashblocks when their refunds differ', async () => {
    const [, , third] = await blocksOf(...THREE)
    const [one, other] = [4_000n, 4_001n].map((gas) => stated(third!, refund(3, gas))[1]!)
    expect(isSameFlashblock(one!, one!)).toBe(true)
    expect(isSameFlashblock(one!, other!)).toBe(false)
    expect(isSameFlashblock(one!, { ...one!, delta: { ...one!.delta, postExec: undefined } })).toBe(
      false,
    )
  })

  test('survive encoding, and an invalid post-exec transaction is refused', async () => {
    const [, , third] = await blocksOf(...THREE)
    const [zero, one] = stated(third!, refund(3, 4_000n))
    const over = (raw: Uint8Array) =>
      decodePacket(encodePacket({ ...one!, delta: { ...one!.delta, postExec: raw } }))
    expect(over(one!.delta.postExec!)).toMatchObject({ message: { delta: one!.delta } })
    expect(decodePacket(encodePacket(zero!))).toMatchObject({ message: { delta: zero!.delta } })
    expect(over(Uint8Array.of(0x7d, 0xc0))).toEqual({
      refuse:
        'diff.post_exec_tx: expected a post-exec transaction, got rlp: too few elements for types.PostExec',
      field: 'diff.post_exec_tx',
    })
    expect(over(send(0, 0).raw)).toEqual({
      refuse: 'diff.post_exec_tx: expected a post-exec transaction, got another type',
      field: 'diff.post_exec_tx',
    })
  })
})
