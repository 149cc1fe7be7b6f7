/** The gas of gasless transactions in a block is limited: some wait for a later block. */
import { expect, test } from 'vitest'
import type { Allocation } from '../../../engine/chainspec/genesis.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { ABOVE_GASLESS } from '../../../engine/sources/sequencer/fill.ts'
import { pooledChain, pooledOnly } from '../../fixtures/pooled-chain.ts'
import { GENESIS_TIME, testChain } from '../../fixtures/sequenced-chain.ts'
import { transfer } from '../../fixtures/txpool.ts'

/** A call of INVALID uses all of its gas. */
const BURNER = hexToBytes('0x00000000000000000000000000000000000000fe')
const WHITELIST = testChain().rulesAt(1n, BigInt(GENESIS_TIME)).gaslessContract!
const ACCOUNTS: Allocation = new Map([
  [bytesToHex(BURNER), { balance: 0n, code: hexToBytes('0xfe') }],
  // The contract always returns (1, 50,000,000).
  [bytesToHex(WHITELIST), { balance: 0n, code: hexToBytes('0x60015f526302faf08060205260405ff3') }],
])
const FREE = { to: BURNER, value: 0n, maxFeePerGas: 0n, maxPriorityFeePerGas: 0n }
const free = (sender: number, gasLimit: bigint, nonce = 0) =>
  transfer(sender, nonce, { ...FREE, gasLimit })
/**
 * Makes a transaction with the lowest fee, so that earlier transactions without a fee come first.
 */
const paying = (sender: number, nonce = 0) =>
  transfer(sender, nonce, { maxFeePerGas: 1_000_000_000n, maxPriorityFeePerGas: 0n })

/** Gives the time from milliseconds of the second block. */
const at = (ms: number) => (GENESIS_TIME + 1) * 1000 + ms

async function run(gas: bigint, arrivals: readonly (readonly [ms: number, SignedTransaction[]])[]) {
  const pooled = pooledChain(() => {}, 5, { accounts: ACCOUNTS, gas })
  for (const [ms, transactions] of arrivals) pooled.arrive(at(ms), ...transactions)
  await pooled.until(() => pooled.chain.blocks.length > 4)
  const blocks = [2, 3, 4].map((number) =>
    pooledOnly(pooled.chain.blocks[number]!.transactions).map(bytesToHex),
  )
  return { pooled, blocks }
}
const raws = (...transactions: readonly SignedTransaction[]) =>
  transactions.map(({ raw }) => bytesToHex(raw))

test('gasless transactions above the block’s limit wait, and others do not', async () => {
  const [first, large, small] = [free(0, 60_000n), free(1, 60_000n), free(2, 30_000n)]
  const afterLarge = paying(1, 1)
  const other = paying(3)
  // A transaction of a later flashblock of the block waits too.
  const later = free(4, 25_000n)
  const { pooled, blocks } = await run(100_000n, [
    [210, [first, large, afterLarge, small, other]],
    [410, [later]],
  ])
  expect(blocks[0]).toEqual(raws(first, other))
  // Nonces keep their order: the transactions after the large one come with it.
  expect(blocks[1]!.toSorted()).toEqual(raws(large, small, afterLarge).toSorted())
  expect(blocks[2]).toEqual(raws(later))
  expect(pooled.chain.rejected).toEqual([])
})

test('the limit counts the gas used, not the gas limit', async () => {
  const toNobody = { ...FREE, to: new Uint8Array(20).fill(0xaa), gasLimit: 90_000n }
  const all = [0, 1, 2, 3].map((sender) => transfer(sender, 0, toNobody))
  const { blocks } = await run(84_000n, [[210, all]])
  expect(blocks[0]).toEqual(raws(...all))
})

test('a gasless transaction above the limit by itself is rejected, without delay', async () => {
  const [above, small] = [free(0, 60_000n), free(1, 30_000n)]
  const { pooled, blocks } = await run(50_000n, [[210, [above, small]]])
  expect(blocks[0]).toEqual(raws(small))
  // This pool retains rejected transactions and offers them again.
  for (const rejected of pooled.chain.rejected)
    expect(rejected).toEqual({ hash: above.hash, reason: ABOVE_GASLESS })
  expect(pooled.chain.rejected).not.toEqual([])
})

test('a restarted sequencer continues to count gasless gas', async () => {
  const pooled = pooledChain(() => {}, 5, { accounts: ACCOUNTS, gas: 100_000n })
  const [first, second] = [free(0, 60_000n), free(1, 60_000n)]
  pooled.arrive(at(210), first)
  await pooled.until(() => pooled.chain.flashblocks(2n).length > 3)
  pooled.restart()
  pooled.arrive(at(610), second)
  await pooled.until(() => pooled.chain.blocks.length > 3)
  const [block, next] = [2, 3].map((number) =>
    pooledOnly(pooled.chain.blocks[number]!.transactions).map(bytesToHex),
  )
  expect(block).toEqual(raws(first))
  expect(next).toEqual(raws(second))
})
