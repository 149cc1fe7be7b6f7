/** The gas that gasless transactions have in a block: who waits, who does not, and until when. */
import { expect, test } from 'vitest'
import type { Allocation } from '../../../engine/chainspec/genesis.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { ABOVE_GASLESS } from '../../../engine/sources/sequencer/fill.ts'
import { pooledChain, pooledOnly } from '../../fixtures/pooled-chain.ts'
import { GENESIS_TIME, testChain } from '../../fixtures/sequenced-chain.ts'
import { transfer } from '../../fixtures/txpool.ts'

/** INVALID: a call of it uses all of its gas. */
const BURNER = hexToBytes('0x00000000000000000000000000000000000000fe')
const WHITELIST = testChain().rulesAt(1n, BigInt(GENESIS_TIME)).gaslessContract!
const ACCOUNTS: Allocation = new Map([
  [bytesToHex(BURNER), { balance: 0n, code: hexToBytes('0xfe') }],
  // Returns (1, 50,000,000) whatever it is asked.
  [bytesToHex(WHITELIST), { balance: 0n, code: hexToBytes('0x60015f526302faf08060205260405ff3') }],
])
const FREE = { to: BURNER, value: 0n, maxFeePerGas: 0n, maxPriorityFeePerGas: 0n }
const free = (sender: number, gasLimit: bigint, nonce = 0) =>
  transfer(sender, nonce, { ...FREE, gasLimit })
/** It pays, and as little as it can: those without a fee come before it where they came first. */
const paying = (sender: number, nonce = 0) =>
  transfer(sender, nonce, { maxFeePerGas: 1_000_000_000n, maxPriorityFeePerGas: 0n })

/** Milliseconds of the second block. */
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

test('the first that exceeds it is skipped, those after it wait for the next block, others do not', async () => {
  const [first, large, small] = [free(0, 60_000n), free(1, 60_000n), free(2, 30_000n)]
  const behindLarge = paying(1, 1)
  const other = paying(3)
  // One that comes in a later flashblock of the block waits too.
  const later = free(4, 25_000n)
  const { pooled, blocks } = await run(100_000n, [
    [210, [first, large, behindLarge, small, other]],
    [410, [later]],
  ])
  expect(blocks[0]).toEqual(raws(first, other))
  // Nonces keep their order: what is behind the large one comes with it.
  expect(blocks[1]!.toSorted()).toEqual(raws(large, small, behindLarge).toSorted())
  expect(blocks[2]).toEqual(raws(later))
  expect(pooled.chain.rejected).toEqual([])
})

test('gas that is used counts, not what a transaction may use', async () => {
  const toNobody = { ...FREE, to: new Uint8Array(20).fill(0xaa), gasLimit: 90_000n }
  const all = [0, 1, 2, 3].map((sender) => transfer(sender, 0, toNobody))
  const { blocks } = await run(84_000n, [[210, all]])
  expect(blocks[0]).toEqual(raws(...all))
})

test('what is above it alone leaves the pool, and nobody waits for it', async () => {
  const [above, small] = [free(0, 60_000n), free(1, 30_000n)]
  const { pooled, blocks } = await run(50_000n, [[210, [above, small]]])
  expect(blocks[0]).toEqual(raws(small))
  // This pool keeps what is rejected, and offers it again.
  for (const rejected of pooled.chain.rejected)
    expect(rejected).toEqual({ hash: above.hash, reason: ABOVE_GASLESS })
  expect(pooled.chain.rejected).not.toEqual([])
})

test('a sequencer that starts again goes on counting', async () => {
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
