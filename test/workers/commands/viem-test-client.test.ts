/**
 * viem's test client runs on a development chain. Each of its thirty actions works, or is unknown
 * and documented as a deviation.
 */
import { readFileSync } from 'node:fs'
import {
  createTestClient,
  type Hex,
  http,
  parseEther,
  publicActions,
  testActions,
  walletActions,
} from 'viem'
import { foundry } from 'viem/chains'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { fresh } from '../../fixtures/dev-node.ts'
import { accountOf } from '../../fixtures/op-client.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

const clientOf = (mode: 'anvil' | 'hardhat') =>
  createTestClient({
    account: accountOf(0),
    mode,
    chain: foundry,
    cacheTime: 0,
    pollingInterval: 50,
    transport: http(`${node.url}/flashblocks`, { retryCount: 0 }),
  })
    .extend(publicActions)
    .extend(walletActions)

let node: RunningNode
let client: ReturnType<typeof clientOf>
beforeAll(async () => {
  node = await startNode(['--ephemeral', '--rate-limit', 'off', '--chain-id', '31337'])
  client = clientOf('anvil')
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})
beforeEach(() => client.setAutomine(false))

const latest = { blockTag: 'latest' } as const
const WORD = `0x${'00'.repeat(31)}2a` as const
/** The contract returns its slot 1. */
const GETTER = '0x60015460005260206000f3'
const send = (to: Hex, value = 1n) => client.sendTransaction({ to, value })
const mineOne = () => client.mine({ blocks: 1 })

type Client = ReturnType<typeof clientOf>
/** The keys are names of actions. */
const works: Readonly<Record<string, () => Promise<void>>> = {
  async mine() {
    const before = await client.getBlock()
    await client.mine({ blocks: 3, interval: 10 })
    const after = await client.getBlock()
    expect(after.number).toBe(before.number + 3n)
    expect(after.timestamp - before.timestamp).toBeGreaterThan(20n)
  },
  async increaseTime() {
    const before = await client.getBlock()
    await client.increaseTime({ seconds: 420 })
    await mineOne()
    expect((await client.getBlock()).timestamp).toBe(before.timestamp + 420n)
  },
  async setNextBlockTimestamp() {
    const timestamp = (await client.getBlock()).timestamp + 777n
    await client.setNextBlockTimestamp({ timestamp })
    await mineOne()
    expect((await client.getBlock()).timestamp).toBe(timestamp)
  },
  async setBlockTimestampInterval() {
    await client.setBlockTimestampInterval({ interval: 5 })
    const before = await client.getBlock()
    await client.mine({ blocks: 2 })
    expect((await client.getBlock()).timestamp).toBe(before.timestamp + 10n)
  },
  async removeBlockTimestampInterval() {
    await client.setBlockTimestampInterval({ interval: 50 })
    await client.removeBlockTimestampInterval()
    const before = await client.getBlock()
    await mineOne()
    expect((await client.getBlock()).timestamp).toBe(before.timestamp + 1n)
  },
  async setAutomine() {
    await client.setAutomine(true)
    const number = await client.getBlockNumber()
    await expect.poll(() => client.getBlockNumber()).toBeGreaterThan(number)
  },
  async getAutomine() {
    expect(await client.getAutomine()).toBe(false)
    await client.setAutomine(true)
    expect(await client.getAutomine()).toBe(true)
  },
  async setIntervalMining() {
    await client.setIntervalMining({ interval: 1 })
    expect(await client.getAutomine()).toBe(true)
    await client.setIntervalMining({ interval: 0 })
    expect(await client.getAutomine()).toBe(false)
  },
  async setBlockGasLimit() {
    await client.setBlockGasLimit({ gasLimit: 12_345_678n })
    await client.mine({ blocks: 2 })
    expect((await client.getBlock()).gasLimit).toBe(12_345_678n)
  },
  async setBalance() {
    const address = fresh()
    await client.setBalance({ address, value: parseEther('1') })
    expect(await client.getBalance({ address, ...latest })).toBe(parseEther('1'))
  },
  async setNonce() {
    const address = fresh()
    await client.setNonce({ address, nonce: 420 })
    expect(await client.getTransactionCount({ address, ...latest })).toBe(420)
  },
  async setCode() {
    const address = fresh()
    await client.setCode({ address, bytecode: GETTER })
    expect(await client.getCode({ address, ...latest })).toBe(GETTER)
  },
  async setStorageAt() {
    const address = fresh()
    await client.setCode({ address, bytecode: GETTER })
    await client.setStorageAt({ address, index: 1, value: WORD })
    expect((await client.call({ to: address })).data).toBe(WORD)
  },
  async impersonateAccount() {
    const [address, to] = [fresh(), fresh()]
    await client.setBalance({ address, value: parseEther('1') })
    await client.impersonateAccount({ address })
    const hash = await client.sendTransaction({ account: address, to, value: 3n })
    await mineOne()
    expect(await client.getTransactionReceipt({ hash })).toMatchObject({ status: 'success' })
    expect(await client.getBalance({ address: to, ...latest })).toBe(3n)
  },
  async stopImpersonatingAccount() {
    const address = fresh()
    await client.impersonateAccount({ address })
    await client.stopImpersonatingAccount({ address })
    const sent = client.sendTransaction({ account: address, to: fresh(), value: 0n })
    await expect(sent).rejects.toThrow('unknown account')
  },
  async sendUnsignedTransaction() {
    const [from, to] = [fresh(), fresh()]
    await client.setBalance({ address: from, value: 10n })
    await client.sendUnsignedTransaction({ from, to, value: 4n })
    await mineOne()
    expect(await client.getBalance({ address: to, ...latest })).toBe(4n)
  },
  async dropTransaction() {
    const hash = await send(fresh())
    await client.dropTransaction({ hash })
    await mineOne()
    await expect(client.getTransactionReceipt({ hash })).rejects.toThrow('could not be found')
  },
  async snapshot() {
    expect(await client.snapshot()).toMatch(/^0x[0-9a-f]+$/)
  },
  async revert() {
    const to = fresh()
    const number = (await client.snapshot()) && (await client.getBlockNumber())
    const id = await client.snapshot()
    await send(to)
    await mineOne()
    expect(await client.getBalance({ address: to, ...latest })).toBe(1n)
    await client.revert({ id })
    expect(await client.getBalance({ address: to, ...latest })).toBe(0n)
    expect(await client.getBlockNumber()).toBe(number)
  },
  async getTxpoolStatus() {
    const before = await client.getTxpoolStatus()
    await send(fresh())
    expect((await client.getTxpoolStatus()).pending).toBe(before.pending + 1)
    await mineOne()
  },
  async getTxpoolContent() {
    expect(await client.getTxpoolContent()).toEqual({ pending: {}, queued: {} })
  },
}

/** Maps names of actions to the missing method and a call of it. */
const isUnknown: Readonly<
  Record<string, readonly [method: string, (on: Client) => Promise<unknown>]>
> = {
  dumpState: ['anvil_dumpState', (on) => on.dumpState()],
  loadState: ['anvil_loadState', (on) => on.loadState({ state: '0x00' })],
  reset: ['anvil_reset', (on) => on.reset()],
  setCoinbase: ['anvil_setCoinbase', (on) => on.setCoinbase({ address: fresh() })],
  setLoggingEnabled: ['anvil_setLoggingEnabled', (on) => on.setLoggingEnabled(true)],
  setMinGasPrice: ['anvil_setMinGasPrice', (on) => on.setMinGasPrice({ gasPrice: 1n })],
  setNextBlockBaseFeePerGas: [
    'anvil_setNextBlockBaseFeePerGas',
    (on) => on.setNextBlockBaseFeePerGas({ baseFeePerGas: 1n }),
  ],
  setRpcUrl: ['anvil_setRpcUrl', (on) => on.setRpcUrl('http://127.0.0.1')],
  inspectTxpool: ['txpool_inspect', (on) => on.inspectTxpool()],
}

test('all actions of the test client are covered', () => {
  const names = Object.keys(testActions({ mode: 'anvil' })(client))
  const mine = [...Object.keys(works), ...Object.keys(isUnknown)]
  expect(mine.toSorted()).toEqual(names.toSorted())
  expect(mine).toHaveLength(30)
})

describe('an action that works', () => {
  test.each(Object.entries(works))('gives the expected result: %s', (_, run) => run())
})

describe('an action that docs/deviations.md lists', () => {
  const deviations = readFileSync('docs/deviations.md', 'utf8')
  test.each(Object.entries(isUnknown))('is unknown: %s', async (_, [method, run]) => {
    await expect(run(client)).rejects.toMatchObject({
      cause: expect.objectContaining({ code: -32601 }),
    })
    expect(deviations.includes(`\`${method}\``)).toBe(true)
  })
})

test('the actions work under the method names of Hardhat', async () => {
  const hardhat = clientOf('hardhat')
  const address = fresh()
  await hardhat.setBalance({ address, value: 5n })
  await hardhat.setNonce({ address, nonce: 3 })
  await hardhat.setCode({ address, bytecode: GETTER })
  await hardhat.setStorageAt({ address, index: 1, value: WORD })
  await hardhat.impersonateAccount({ address })
  const number = await hardhat.getBlockNumber()
  await hardhat.mine({ blocks: 2 })
  expect(await hardhat.getBlockNumber()).toBe(number + 2n)
  expect((await hardhat.call({ to: address })).data).toBe(WORD)
  await hardhat.stopImpersonatingAccount({ address })
})
