/**
 * The first block of Karst has the 31 upgrade deposits of a network. A node must import this block,
 * and follow it in each form in which blocks arrive. The node must refuse it with a signed
 * transaction.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { devChain } from '../../engine/chainspec/dev-genesis.ts'
import { genesisFileOf } from '../../engine/chainspec/genesis-writer.ts'
import { NETWORKS, NEWEST_AT_0 } from '../../engine/chainspec/networks.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { subblockOf } from '../../engine/flashblocks/subblock.ts'
import type { Flashblock } from '../../engine/flashblocks/types.ts'
import type { RlpBlock } from '../../engine/primitives/block-codec.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { Transaction } from '../../engine/primitives/transaction.ts'
import { decodeTransaction } from '../../engine/primitives/transaction-codec.ts'
import { openImport } from '../../engine/sources/import.ts'
import { importGenesis } from '../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { createMemoryDatabase } from '../../engine/storage/database/memory.ts'
import { ChainUpstream } from '../fixtures/chain-upstream.ts'
import { describeEngines } from '../fixtures/engines.ts'
import { KARST_RAWS, KARST_UPGRADE_GAS, KARST_UPGRADES } from '../fixtures/karst-upgrade.ts'
import { createProducer, type ProducedBlock, send } from '../fixtures/producer.ts'
import { seal, worldWith } from '../fixtures/writer-branches.ts'
import { startNode } from '../kit/node.ts'

const GENESIS = 1_700_000_000n
const chainWith = (karst: bigint): ChainSpec =>
  devChain({
    name: 'test',
    blockTime: 1,
    timestamp: GENESIS,
    parameters: NETWORKS.get('xlayer')!.parameters,
    schedule: { ...NEWEST_AT_0, karst },
  })
const KARST = GENESIS + 2n
const chain = chainWith(KARST)
const LIMIT = chain.genesisHeader.gasLimit
const upgrades = KARST_RAWS.map((raw) => decodeTransaction(raw))
const isAbsent = upgrades.length === 0
if (isAbsent) test('the tests of the Karst block need CONFORMANCE_DIR', ({ skip }) => skip())

/**
 * Builds blocks 1 to 3, of which the second one starts Karst. The gas limit of the third one falls
 * back, or stays at that of the second one.
 */
async function threeBlocks(keepsGas: boolean, more: readonly Transaction[] = []) {
  const limits = [
    0n,
    LIMIT,
    LIMIT + KARST_UPGRADE_GAS,
    keepsGas ? LIMIT + KARST_UPGRADE_GAS : LIMIT,
  ]
  const producer = createProducer(chain, (number) => ({ gasLimit: limits[Number(number)]! }))
  const first = await producer.build(producer.genesis, 1, [[send(0, 0)]])
  const second = await producer.build(first, 2, [[...upgrades, ...more]])
  const third = await producer.build(second, 3, [[send(0, 1)]])
  return [first, second, third] as const
}
const rlpOf = ({ header, upstreamBlock }: ProducedBlock): RlpBlock => ({
  header,
  transactions: upstreamBlock.transactions,
  ommers: [],
  withdrawals: [],
})
/** A sequencer has all deposits of a block in its index 0. */
function asOneFlashblock({ flashblocks }: ProducedBlock): Flashblock {
  const [zero, one] = flashblocks
  const transactions = [...zero!.delta.transactions, ...one!.delta.transactions]
  return { ...zero!, delta: { ...one!.delta, transactions } }
}
const USERS = 'the first block of a fork takes deposits only'

describe.skipIf(isAbsent).each([
  ['returns to its old value', false],
  ['stays', true],
])('the first block of Karst, if the gas limit %s afterwards', (_, keepsGas) => {
  describeEngines((engine) => {
    test('is imported from a file of blocks', async () => {
      const blocks = await threeBlocks(keepsGas)
      const database = createMemoryDatabase()
      importGenesis(database, chain)
      const limits = { undoWindow: 256, historyBlocks: undefined }
      const target = openImport({ database, chain, engine, limits })
      for (const block of blocks) await target.add(rlpOf(block))
      target.finish()
      expect(openStore(database).durableHead()).toMatchObject({ number: 3, hash: blocks[2].hash })
    })
  })

  test.each(['flashblocks', 'subblocks', 'canonical'])(
    'is accepted by a follower in the form of %s',
    async (way) => {
      const [first, second, third] = await threeBlocks(keepsGas)
      const world = await worldWith([first], { chain })
      if (way !== 'canonical') {
        const message = asOneFlashblock(second)
        await world.packet(way === 'subblocks' ? subblockOf(message) : message)
        await world.settle()
        expect(world.heads().pending).toEqual([2, 0])
      }
      const lease = () => world.reader.lease('flashblocks')
      await seal(world, second, { hash: second.hash })
      await world.settle({ ticks: true })
      expect(world.heads().canonical).toEqual([2, bytesToHex(second.hash)])
      expect(world.count('sealed_executed_whole')).toBe(way === 'canonical' ? 1 : 0)
      const { view, release } = lease()
      const block = view.block({ hash: second.hash, requireCanonical: true })!
      expect(block.header.gasLimit).toBe(LIMIT + KARST_UPGRADE_GAS)
      const receipts = block.receipts()
      expect(
        block
          .transactions()
          .map(({ hash }) => bytesToHex(hash))
          .slice(1),
      ).toEqual(KARST_UPGRADES.map(({ hash }) => hash))
      for (const [at, { gas, intent }] of KARST_UPGRADES.entries()) {
        const { gasUsed } = receipts[at + 1]!
        expect([intent, gasUsed > 0n && gasUsed <= BigInt(gas)]).toEqual([intent, true])
      }
      release()
      await seal(world, third, { hash: third.hash })
      await world.settle({ ticks: true })
      expect(world.heads().canonical).toEqual([3, bytesToHex(third.hash)])
    },
  )
})

describe.skipIf(isAbsent)('a first block of Karst with a signed transaction', () => {
  describeEngines((engine) => {
    test('is refused by the import at that transaction', async () => {
      const [first, second] = await threeBlocks(false, [send(1, 0)])
      const database = createMemoryDatabase()
      importGenesis(database, chain)
      const limits = { undoWindow: 256, historyBlocks: undefined }
      const target = openImport({ database, chain, engine, limits })
      await target.add(rlpOf(first))
      const hash = bytesToHex(send(1, 0).hash)
      await expect(target.add(rlpOf(second))).rejects.toThrow(
        `block 2: transaction 32 (${hash}): ${USERS}`,
      )
    })
  })

  test.each(['flashblocks', 'subblocks', 'canonical'])(
    'is refused by a follower in the form of %s',
    async (way) => {
      const [first, second] = await threeBlocks(false, [send(1, 0)])
      const world = await worldWith([first], { chain })
      if (way === 'canonical')
        // The first refusal makes the follower request the block again.
        for (let times = 0; times < 2; times++) await seal(world, second, { hash: second.hash })
      else {
        const message = asOneFlashblock(second)
        await world.packet(way === 'subblocks' ? subblockOf(message) : message)
      }
      await world.settle({ ticks: true })
      expect(world.heads()).toMatchObject({
        canonical: [1, bytesToHex(first.hash)],
        pending: [1, 1],
      })
      expect(JSON.stringify(world.emitted)).toContain(USERS)
    },
  )
})

test.skipIf(isAbsent)(
  'a node with a wrong time of Karst halts and names the flag that corrects it',
  async () => {
    const blocks = await threeBlocks(false)
    const upstream = await ChainUpstream.open(chain)
    const folder = mkdtempSync(join(tmpdir(), 'karst-block-'))
    const genesis = join(folder, 'genesis.json')
    writeFileSync(genesis, genesisFileOf(chainWith(KARST + 1_000n)))
    upstream.blocks = blocks
    const flags = ['--chain', genesis, '--ephemeral', '--upstream', upstream.url, '--feed', 'none']
    const full = [...flags, '--state', 'whole']
    const query = async (url: string) => {
      const response = await fetch(`${url}/readyz`)
      return [response.status, ((await response.json()) as { reasons: string[] }).reasons.join()]
    }
    const wrong = await startNode(full, 'follow')
    try {
      await expect
        .poll(() => query(wrong.url))
        .toEqual([503, expect.stringContaining(`(--fork-time karst=${KARST} would)`)])
      expect(wrong.output()).toContain(`--fork-time karst=${KARST} would`)
    } finally {
      expect(await wrong.stop()).toBe(0)
    }
    const right = await startNode([...full, '--fork-time', `karst=${KARST}`], 'follow')
    try {
      const head = async () => {
        const body = JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'eth_blockNumber',
          params: [],
        })
        const headers = { 'content-type': 'application/json' }
        const response = await fetch(right.url, { method: 'POST', body, headers })
        return ((await response.json()) as { result: string }).result
      }
      await expect.poll(head).toBe('0x3')
    } finally {
      expect(await right.stop()).toBe(0)
      upstream.close()
      rmSync(folder, { recursive: true })
    }
  },
)
