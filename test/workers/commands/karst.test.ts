/** A development chain and its follower change their rules at the time of --fork-time. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, hexToNumber, numberToHex } from 'viem'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fresh } from '../../fixtures/dev-node.ts'
import { opClient } from '../../fixtures/op-client.ts'
import { call, type RunningNode, startNode } from '../../kit/node.ts'

/** No block gets this time by itself. */
const KARST = Math.floor(Date.now() / 1_000) + 100_000
const LAGOON = KARST + 100_000
const CAP = 1n << 24n
const MODEXP: Hex = '0x0000000000000000000000000000000000000005'
const P256VERIFY: Hex = '0x0000000000000000000000000000000000000100'

let folder: string
let node: RunningNode
let follower: RunningNode
let client: ReturnType<typeof opClient>
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'karst-'))
  const own = ['--datadir', join(folder, 'data'), '--fork-time', `karst=${KARST},lagoon=${LAGOON}`]
  node = await startNode([...own, '--rate-limit', 'off'])
  client = opClient(node.url)
  const feed = `${node.url.replace('http', 'ws')}/feed`
  const source = ['--upstream', node.url, '--feed', feed, '--state', 'whole']
  const chain = ['--chain', join(folder, 'data', 'genesis.json'), '--ephemeral']
  follower = await startNode([...chain, ...source, '--rate-limit', 'off'], 'follow')
})
afterAll(async () => {
  expect(await follower?.stop()).toBe(0)
  expect(await node?.stop()).toBe(0)
  rmSync(folder, { recursive: true })
})

type Block = { readonly hash: Hex; readonly transactions: readonly { readonly type: Hex }[] }
const on = (of: RunningNode, method: string, ...params: readonly unknown[]) =>
  call(of.url, method, params)
const blockAt = (of: RunningNode, number: number) =>
  on(of, 'eth_getBlockByNumber', numberToHex(number), true) as Promise<Block | null>
const headOf = async (of: RunningNode) => hexToNumber((await on(of, 'eth_blockNumber')) as Hex)
const isRefused = (request: Promise<unknown>) =>
  request.then(
    () => false,
    () => true,
  )

/** Says whether a call with this gas fails, and checks that both nodes agree. */
async function fails(to: Hex, gas: number): Promise<boolean> {
  const query = (of: RunningNode) => isRefused(on(of, 'eth_call', { to, gas: numberToHex(gas) }))
  const [one, other] = [await query(node), await query(follower)]
  expect(one).toBe(other)
  return one
}
const estimate = async (to: Hex) =>
  hexToNumber((await on(node, 'eth_estimateGas', { to, data: '0x' })) as Hex)

test('Karst changes calls, estimates and sends, and starts with a block of deposits', async () => {
  expect([await fails(MODEXP, 21_300), await fails(P256VERIFY, 24_500)]).toEqual([false, false])
  expect(await estimate(MODEXP)).toBeLessThan(21_500)
  // The transaction is included before the fork, which would make it invalid and leave a gap of
  // nonces.
  await client.waitForTransactionReceipt({
    hash: await client.sendTransaction({ to: fresh(), value: 1n, gas: CAP + 1n }),
  })

  await on(node, 'dev_pause')
  await on(node, 'evm_setNextBlockTimestamp', KARST)
  const first = (await headOf(node)) + 1
  const waiting = await client.sendTransaction({ to: fresh(), value: 1n })
  await on(node, 'dev_resume')
  await expect.poll(() => headOf(follower)).toBeGreaterThan(first)

  const fork = await findFork(first)
  const [mine, theirs] = [await blockAt(node, fork), await blockAt(follower, fork)]
  expect(mine?.transactions.map(({ type }) => type)).toEqual(['0x7e'])
  expect(theirs?.hash).toBe(mine?.hash)
  const receiptOf = () => on(node, 'eth_getTransactionReceipt', waiting)
  await expect.poll(receiptOf).not.toBe(null)
  const { blockNumber } = (await receiptOf()) as { readonly blockNumber: Hex }
  expect(hexToNumber(blockNumber)).not.toBe(fork)

  expect([await fails(MODEXP, 21_300), await fails(P256VERIFY, 24_500)]).toEqual([true, true])
  expect([await fails(MODEXP, 21_600), await fails(P256VERIFY, 28_000)]).toEqual([false, false])
  expect(await estimate(MODEXP)).toBeGreaterThanOrEqual(21_500)
  const above = client.sendTransaction({ to: fresh(), value: 1n, gas: CAP + 1n })
  await expect(above).rejects.toThrow(
    'transaction gas limit too high (cap: 16777216, tx: 16777217)',
  )
  await client.sendTransaction({ to: fresh(), value: 1n, gas: CAP })
})

test('both nodes continue after Lagoon, whose first block has only deposits', async () => {
  await on(node, 'evm_setNextBlockTimestamp', LAGOON)
  const waiting = await client.sendTransaction({ to: fresh(), value: 1n })
  const receiptOf = (of: RunningNode) => on(of, 'eth_getTransactionReceipt', waiting)
  await expect.poll(() => receiptOf(follower)).not.toBe(null)
  const receipt = await receiptOf(follower)
  expect(receipt).toEqual(await receiptOf(node))
  const { blockNumber } = receipt as { readonly blockNumber: Hex }
  await expect.poll(() => headOf(follower)).toBeGreaterThanOrEqual(hexToNumber(blockNumber))
  const block = await blockAt(follower, hexToNumber(blockNumber))
  expect(block?.hash).toBe((await blockAt(node, hexToNumber(blockNumber)))?.hash)
})

/** Finds the block with the time of the fork. */
async function findFork(from: number): Promise<number> {
  for (let number = from; number <= (await headOf(node)); number++) {
    const block = (await blockAt(node, number)) as unknown as { readonly timestamp: Hex }
    if (hexToNumber(block.timestamp) >= KARST) return number
  }
  throw new Error('no block has the time of the fork')
}
