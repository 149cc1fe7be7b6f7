/** A follower on Lagoon: blocks that end with a post-exec transaction, and those whose refunds are not right. */
import { expect, test } from 'vitest'
import { devChain } from '../../../engine/chainspec/dev-genesis.ts'
import { NETWORKS, NEWEST_AT_0 } from '../../../engine/chainspec/networks.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { makePostExec } from '../../../engine/primitives/transaction-codec.ts'
import { createProducer, type ProducedBlock, type Producer, send } from '../../fixtures/producer.ts'
import { seal, show, worldWith } from '../../fixtures/writer-branches.ts'

const GENESIS = 1_700_000_000n
/** Block 2 is Lagoon's first. */
const chain = devChain({
  ...{ name: 'test', blockTime: 1, timestamp: GENESIS },
  parameters: NETWORKS.get('xlayer')!.parameters,
  schedule: { ...NEWEST_AT_0, karst: 0n, lagoon: GENESIS + 2n },
})
const producer = createProducer(chain)
const refund = (block: number, gasRefund: bigint) =>
  makePostExec(BigInt(block), [{ index: 1n, gasRefund }])

type Of = { readonly list: readonly SignedTransaction[]; readonly gasRefund?: bigint }
/** Blocks 1, 2 and so on. */
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

test.each(['canonical', 'flashblocks before'])('a block with refunds, %s', async (way) => {
  const [first, second, third, fourth] = await blocksOf(...THREE, { list: [send(0, 1)] })
  const world = await worldWith([first!, second!], { chain })
  expect(world.heads().canonical[0]).toBe(2)
  if (way !== 'canonical') await show(world, third!)
  await seal(world, third!, { hash: third!.hash })
  await world.settle({ ticks: true })
  expect(world.heads().canonical).toEqual([3, bytesToHex(third!.hash)])
  // Its state is that which the next one stands on.
  await seal(world, fourth!, { hash: fourth!.hash })
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(4)
})

test('the first block of Lagoon has deposits alone', async () => {
  const [first, second] = await blocksOf({ list: [] }, { list: [send(0, 0)] })
  const world = await worldWith([first!], { chain })
  await seal(world, second!)
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(1)
})

test.each([
  ['of another block', 4, 4_000n, 'a post-exec transaction of block 4 in block 3'],
  ['above the gas', 3, 21_001n, 'a gas refund of 21001 for 21000 used'],
])('refunds %s', async (_, number, gasRefund, why) => {
  const [first, second, third] = await blocksOf(...THREE)
  const world = await worldWith([first!, second!], { chain })
  const transactions = [...third!.sealed.transactions.slice(0, -1), refund(number, gasRefund).raw]
  // The first time its source is asked again.
  for (let times = 0; times < 2; times++)
    await seal(world, third!, { hash: third!.hash, transactions })
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(2)
  expect(world.told.filter(({ type }) => type === 'halted')).toMatchObject([
    { message: expect.stringContaining(why) },
  ])
})
