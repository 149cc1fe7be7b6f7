/**
 * A follower at the first block of Karst refuses one with a signed transaction, in whatever form it
 * comes.
 */
import { expect, test } from 'vitest'
import { devChain } from '../../../engine/chainspec/dev-genesis.ts'
import { NETWORKS, NEWEST_AT_0 } from '../../../engine/chainspec/networks.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import type { Transaction } from '../../../engine/primitives/transaction.ts'
import { decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { KARST_RAWS } from '../../fixtures/karst-upgrade.ts'
import { createProducer, type ProducedBlock, type Producer, send } from '../../fixtures/producer.ts'
import { publishBlock, seal, worldWith } from '../../fixtures/writer-branches.ts'

const GENESIS = 1_700_000_000n
const chainWith = (karst: bigint): ChainSpec =>
  devChain({
    name: 'test',
    blockTime: 1,
    timestamp: GENESIS,
    parameters: NETWORKS.get('xlayer')!.parameters,
    schedule: { ...NEWEST_AT_0, karst },
  })
/** The genesis and each block are equal under both rules, because no header states its fork. */
const chain = chainWith(GENESIS + 2n)
const builder = createProducer(chain)

/** Builds blocks 1 to 3; each list has the transactions of one. */
async function blocksOf(...lists: readonly (readonly Transaction[])[]): Promise<ProducedBlock[]> {
  const blocks: ProducedBlock[] = []
  let parent: Producer['genesis'] = builder.genesis
  for (const [at, list] of lists.entries()) {
    const block = await builder.build(parent, at + 1, [list])
    blocks.push(block)
    parent = block
  }
  return blocks
}

test.each(['flashblocks', 'canonical'])(
  'a first Karst block with a signed transaction is refused, as %s',
  async (way) => {
    const [first, second] = await blocksOf([send(0, 0)], [send(0, 1)])
    const world = await worldWith([first!], { chain })
    if (way === 'flashblocks') await publishBlock(world, second!)
    else await seal(world, second!)
    await world.settle({ ticks: true })
    expect(world.heads().canonical[0]).toBe(1)
    expect(world.heads().pending[0]).toBe(1)
  },
)

test('a first Karst block with deposits only is accepted, and so is the next block', async () => {
  const blocks = await blocksOf([send(0, 0)], [], [send(0, 1)])
  const world = await worldWith(blocks, { chain })
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(3)
})

test.skipIf(KARST_RAWS.length === 0).each([
  ['the next block', GENESIS + 3n],
  ['a later block', GENESIS + 100n],
])('a network that starts Karst early gets advice: our schedule has it at %s', async (_, karst) => {
  const deposit = decodeTransaction(KARST_RAWS[0]!)
  const [first, second] = await blocksOf([send(0, 0)], [deposit])
  const world = await worldWith([first!], { chain: chainWith(karst) })
  // The first refusal makes the tracker fetch the block again.
  for (let times = 0; times < 2; times++) await seal(world, second!, { hash: second!.hash })
  await world.settle({ ticks: true })
  expect(world.heads().canonical[0]).toBe(1)
  expect(world.emitted.filter(({ type }) => type === 'halted')).toMatchObject([
    {
      isFatal: false,
      message: expect.stringMatching(
        new RegExp(`^canonical block 2: .*--fork-time karst=${second!.header.timestamp} would`),
      ),
    },
  ])
  // With that flag the block is accepted.
  const emitted = await worldWith([first!], { chain })
  await seal(emitted, second!, { hash: second!.hash })
  await emitted.settle({ ticks: true })
  expect(emitted.heads().canonical[0]).toBe(2)
})
