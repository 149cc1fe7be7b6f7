/**
 * OP blocks of a file are imported. Their headers have the storage root of the message passer and
 * parameters of the base fee, and no withdrawals.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { MESSAGE_PASSER } from '../../../engine/chainspec/genesis.ts'
import { ISTHMUS_AT_0, NEWEST_AT_0 } from '../../../engine/chainspec/networks.ts'
import { contractCode, predeployAlloc } from '../../../engine/chainspec/predeploys.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { rulesOf } from '../../../engine/chainspec/rules.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import type { RlpBlock } from '../../../engine/primitives/block-codec.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { EMPTY_ROOT } from '../../../engine/primitives/keccak.ts'
import { makePostExec, signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { ImportError, openImport } from '../../../engine/sources/import.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { createMemoryDatabase } from '../../../engine/storage/database/memory.ts'
import { verify } from '../../../engine/verify/verify.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { describeEngines } from '../../fixtures/engines.ts'
import { createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'

const predeploysFile = join(temporaryDirectory(), 'predeploys.json')
writeFileSync(predeploysFile, JSON.stringify(predeployAlloc(contractCode(), undefined)))
const CHAIN = chainSpec({
  name: 'xlayer',
  dev: { genesisTimestamp: 1_700_000_000, predeploysFile },
})
const withdrawal = signTransaction(
  {
    type: 2,
    chainId: CHAIN.chainId,
    nonce: 1n,
    to: hexToBytes(MESSAGE_PASSER),
    value: 5n,
    gasLimit: 300_000n,
    input: new Uint8Array(0),
    accessList: [],
    maxFeePerGas: 10n ** 10n,
    maxPriorityFeePerGas: 1n,
  },
  hexToBytes(DEV_ACCOUNTS[0]!.privateKey),
)
const producer = createProducer(CHAIN)
const one = await producer.build(producer.genesis, 1, [[send(0, 0)]])
const two = await producer.build(one, 2, [[withdrawal], [send(1, 0)]])
const blockOf = ({ header, upstreamBlock }: ProducedBlock): RlpBlock => ({
  header,
  transactions: upstreamBlock.transactions,
  ommers: [],
  withdrawals: [],
})

describeEngines((engine) => {
  function open(chain: ChainSpec = CHAIN) {
    const database = createMemoryDatabase()
    importGenesis(database, chain)
    const limits = { undoWindow: 256, historyBlocks: undefined }
    const target = openImport({ database, chain, engine, limits })
    return { target, database }
  }

  test('a withdrawal is imported, and its root is checked', async () => {
    const { target, database } = open()
    expect(two.header.withdrawalsRoot).not.toEqual(one.header.withdrawalsRoot)
    for (const block of [one, two]) await target.add(blockOf(block))
    target.finish()
    expect(openStore(database).durableHead()).toMatchObject({ number: 2, hash: two.hash })
  })

  test('Lagoon blocks with gas refunds are imported, and wrong refunds are refused', async () => {
    const chain = chainSpec({
      name: 'xlayer',
      dev: { genesisTimestamp: 1_700_000_000, predeploysFile },
      forkTimes: { karst: 1_700_000_001, lagoon: 1_700_000_002 },
    })
    const maker = createProducer(chain)
    const refundOf = (gasRefund: bigint) => makePostExec(3n, [{ index: 1n, gasRefund }])
    const first = await maker.build(maker.genesis, 1, [[]])
    const second = await maker.build(first, 2, [[]])
    const third = await maker.build(second, 3, [[send(0, 0)]], refundOf(4_000n))
    const { target, database } = open(chain)
    for (const block of [first, second]) await target.add(blockOf(block))
    const transactions = [...third.upstreamBlock.transactions.slice(0, -1), refundOf(4_001n).raw]
    await expect(target.add({ ...blockOf(third), transactions })).rejects.toThrow(
      'block 3: transactionsRoot is ',
    )
    const early = transactions.toReversed()
    await expect(target.add({ ...blockOf(third), transactions: early })).rejects.toThrow(
      'a post-exec transaction that is not the last of its block',
    )
    await target.add(blockOf(third))
    target.finish()
    expect(openStore(database).durableHead()).toMatchObject({ number: 3, hash: third.hash })
    // Each stored block is executed again.
    const all = { sample: undefined, random: Math.random, onStep: () => true }
    const { findings, counts } = await verify({ database, chain, engine, ...all })
    expect(findings.retained).toEqual([])
    expect(counts).toMatchObject({ executed: 3, notExecuted: 0 })
  })

  describe('an OP block', () => {
    const word = (byte: number, length = 32) => new Uint8Array(length).fill(byte)
    const { header } = two
    const withExtra = (change: (extraData: Uint8Array) => void) => {
      const extraData = header.extraData.slice()
      change(extraData)
      return { extraData }
    }
    const headers: [name: string, changes: Partial<RlpBlock['header']>, message: string][] = [
      [
        'a withdrawals root of an empty list',
        { withdrawalsRoot: EMPTY_ROOT },
        'block 2: withdrawalsRoot is 0x56e81f17',
      ],
      ['stateRoot', { stateRoot: word(1) }, 'block 2: stateRoot is'],
      ['blobGasUsed', { blobGasUsed: 131_072n }, 'block 2: blobGasUsed is 131072 in the file'],
      ['excessBlobGas', { excessBlobGas: 1n }, 'block 2: excessBlobGas is 1, expected 0'],
      ['requestsHash', { requestsHash: word(1) }, 'block 2: requestsHash is'],
      ['baseFeePerGas', { baseFeePerGas: 7n }, 'block 2: baseFeePerGas is 7, expected'],
      ['difficulty', { difficulty: 1n }, 'block 2: difficulty is 1, expected 0'],
      ['nonce', { nonce: word(1, 8) }, 'block 2: nonce is 72340172838076673, expected 0'],
      ['ommersHash', { ommersHash: word(1) }, 'block 2: ommersHash is not that of no ommers'],
      [
        'extraData of Holocene',
        { extraData: header.extraData.slice(0, 9) },
        'block 2: extraData of 9 bytes, expected 17',
      ],
      [
        'extraData of another version',
        withExtra((extraData) => extraData.fill(2, 0, 1)),
        'block 2: extraData of version 2, expected 1',
      ],
      [
        'a denominator of 0',
        withExtra((extraData) => extraData.fill(0, 1, 5)),
        'block 2: extraData with a base fee denominator of 0',
      ],
      [
        'an elasticity of 0',
        withExtra((extraData) => extraData.fill(0, 5, 9)),
        'block 2: extraData with an elasticity of 0',
      ],
    ]
    test.each(headers)('with a wrong header is refused: %s', async (_name, changes, message) => {
      const { target } = open()
      await target.add(blockOf(one))
      const block = blockOf(two)
      const adding = target.add({ ...block, header: { ...block.header, ...changes } })
      await expect(adding).rejects.toThrow(ImportError)
      await expect(adding).rejects.toThrow(message)
      await target.add(block)
    })

    test('with withdrawals like on Ethereum is refused', async () => {
      const { target } = open()
      const withdrawals = [{ index: 0n, validatorIndex: 0n, address: word(1, 20), amount: 1n }]
      await expect(target.add({ ...blockOf(one), withdrawals })).rejects.toThrow(
        'block 1: 1 withdrawals, an OP block has none',
      )
    })

    test('with a signed transaction is refused if it is the first block of Karst', async () => {
      const karstAt = (karst: bigint) => {
        const parameters = { chainId: CHAIN.chainId, denominator: 100_000_000n, elasticity: 1n }
        return {
          ...CHAIN,
          rulesAt: rulesOf({ ...parameters, schedule: { ...NEWEST_AT_0, karst } }),
        }
      }
      await expect(open(karstAt(one.header.timestamp)).target.add(blockOf(one))).rejects.toThrow(
        /^block 1: transaction 1 \(0x[0-9a-f]{64}\): the first block of a fork takes deposits only$/,
      )
      const { target } = open(karstAt(two.header.timestamp))
      await target.add(blockOf(one))
      await expect(target.add(blockOf(two))).rejects.toThrow('block 2: transaction 1')
      // A fork that is active at the genesis starts with no block.
      await open(karstAt(CHAIN.genesisHeader.timestamp)).target.add(blockOf(one))
    })

    test('that starts Canyon is refused', async () => {
      const { canyon: _, ...schedule } = ISTHMUS_AT_0
      const rulesAt = rulesOf({
        chainId: CHAIN.chainId,
        schedule: { ...schedule, canyon: one.header.timestamp, jovian: 0n },
        denominator: 250n,
        elasticity: 6n,
      })
      await expect(open({ ...CHAIN, rulesAt }).target.add(blockOf(one))).rejects.toThrow(
        /^block 1: Canyon puts the code of a contract into the state/,
      )
    })
  })
})
