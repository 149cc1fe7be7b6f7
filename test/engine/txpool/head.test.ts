/**
 * The pool's validation over a real state demands the same funds as execution, including the fees
 * of the rollup.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { openChainReader } from '../../../engine/chain/reader.ts'
import { L1_BLOCK } from '../../../engine/chainspec/l1-attributes.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { openBlock } from '../../../engine/execution/block/block.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import { headOf } from '../../../engine/txpool/head.ts'
import { digestOf } from '../../../engine/txpool/validation.ts'
import { createViews } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { addressOfSender, at, testPool, transfer } from '../../fixtures/txpool.ts'

const word = (hex: string) => `0x${hex.padStart(64, '0')}`
const BALANCE = 10n ** 15n
const CONTRACT = '0x00000000000000000000000000000000000000c1'
const DELEGATING = '0x00000000000000000000000000000000000000d1'
const alloc = {
  [CONTRACT]: { balance: '0x1', code: '0x5f5ffd' },
  [DELEGATING]: { balance: '0x1', code: `0xef0100${'11'.repeat(20)}` },
  [bytesToHex(addressOfSender(0))]: { balance: `0x${BALANCE.toString(16)}` },
  [L1_BLOCK]: {
    balance: '0x0',
    storage: {
      // L1 base fee 10^9 wei; scalars 5227 and 1014213; blob base fee 7; operator fee: scalar 3,
      // constant 11, footprint 400.
      [word('1')]: word('3b9aca00'),
      [word('3')]: word('0000146b000f79c50000000000000004'),
      [word('7')]: word('7'),
      [word('8')]: `0x${'00'.repeat(18)}019000000003000000000000000b`,
    },
  },
}
const folder = mkdtempSync(join(tmpdir(), 'txpool-'))
afterAll(() => rmSync(folder, { recursive: true }))

function openHead() {
  const allocFile = join(folder, 'alloc.json')
  writeFileSync(allocFile, JSON.stringify(alloc))
  const chain = chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1_700_000_000, allocFile } })
  const database = memoryDatabase()
  importGenesis(database, chain)
  const views = createViews({ bytes: 1 << 20, threads: 1, seed: 1 })
  const publisher = openPublisher(views, { number: 0, hash: chain.genesisHash })
  const { base } = publisher
  publisher.publish({ canonical: base, complete: base, pending: base, safe: 0, finalized: 0 })
  const reader = openChainReader({ views, store: openStore(database), chain, thread: 0 })
  const { view } = reader.lease('flashblocks')
  return { chain, view, head: headOf(view, chain) }
}

/** Gives the execution's result for a transaction in the next block. */
async function execute(
  { chain, view }: ReturnType<typeof openHead>,
  transaction: SignedTransaction,
) {
  const genesis = view.block({ tag: 'pending' })!
  const { header } = genesis
  const block = openBlock({
    engine: referenceEngine,
    chain,
    reader: view.state(genesis),
    attributes: {
      parentHash: genesis.hash,
      parentBeaconBlockRoot: ZERO_32,
      coinbase: header.coinbase,
      prevRandao: ZERO_32,
      number: 1n,
      gasLimit: header.gasLimit,
      timestamp: header.timestamp + 1n,
      extraData: header.extraData,
      baseFee: header.baseFeePerGas!,
    },
  })
  await block.start()
  return block.execute(transaction).finally(() => block.close())
}

describe('the funds of a sender', () => {
  const fees = { maxFeePerGas: 10n ** 9n, maxPriorityFeePerGas: 1n }
  const open = openHead()
  const extra = open.head.rollup(transfer(0, 0, { ...fees, value: BALANCE })).fee
  // The envelope of a value of the same length is as long, so the fee does not change.
  const left = BALANCE - 21_000n * fees.maxFeePerGas - extra

  test('must cover the L1 fee and the operator fee', () => {
    expect(open.head.rollup(transfer(0, 0, fees)).fee).toBeGreaterThan(21_000n * 300n + 11n)
  })
  test('are checked with the DA footprint of the receipt', async () => {
    const transaction = transfer(0, 0, { ...fees, value: left })
    const executed = await execute(open, transaction)
    const { daFootprint } = open.head.rollup(transaction)
    expect(executed).toMatchObject({ executed: { receipt: { l1: { blobGasUsed: daFootprint } } } })
  })
  const cases: [name: string, value: bigint, isCovered: boolean][] = [
    ['the complete balance', left, true],
    ['one wei more than the balance', left + 1n, false],
  ]
  test.each(cases)('are enough exactly as in execution: %s', async (_name, value, isCovered) => {
    const transaction = transfer(0, 0, { ...fees, value })
    const submitted = testPool().pool.submit(transaction.raw, at(open.head))
    const executed = await execute(open, transaction)
    if (isCovered)
      expect([executed.status, submitted]).toEqual(['executed', { hash: transaction.hash }])
    else
      expect(executed).toEqual({
        status: 'invalid',
        reason: 'error' in submitted ? submitted.error : submitted,
      })
  })
})

test('a given digest is used instead of a walk over the bytes', () => {
  const { head } = openHead()
  const sent = transfer(0, 0, {
    input: new Uint8Array(1_000).map((_, at) => at % 7),
    accessList: [{ address: addressOfSender(1), storageKeys: [ZERO_32, ZERO_32] }],
  })
  const made = digestOf(sent.raw)
  if ('error' in made) throw new Error(made.error.message)
  const { digest } = made
  expect(head.rollup(sent, digest)).toEqual(head.rollup(sent))
  expect(head.minGas(sent, digest)).toEqual(head.minGas(sent))
  const rollup = { ...digest.rollup, estimatedSize: 2n * digest.rollup.estimatedSize }
  const intrinsic = { ...digest.intrinsic, slots: 3 }
  const other = { ...digest, rollup, intrinsic }
  expect(head.rollup(sent, other).daFootprint).toBe(2n * head.rollup(sent).daFootprint)
  expect(head.minGas(sent, other).intrinsic).toBe(head.minGas(sent).intrinsic + 1_900n)
})

test('an account with code is a contract, unless that code is a delegation', () => {
  const { head } = openHead()
  const accounts = [hexToBytes(CONTRACT), hexToBytes(DELEGATING), addressOfSender(0)]
  expect(accounts.map((address) => head.isContract(address))).toEqual([true, false, false])
  expect(accounts.map((address) => head.hasCode(address))).toEqual([true, true, false])
})

test('the minimum gas and the gasless contract are those of the chain', () => {
  const { head } = openHead()
  expect(head.minGas(transfer(0, 0, { input: Uint8Array.of(0, 1) }))).toEqual({
    intrinsic: 21_020n,
    floor: 21_050n,
  })
  expect(head.minGas(transfer(0, 0, { to: undefined })).intrinsic).toBe(53_000n)
  expect([head.hasCode(addressOfSender(0)), head.rules.gaslessContract?.length]).toEqual([
    false,
    20,
  ])
})
