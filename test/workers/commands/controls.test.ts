/** A development chain obeys controls: it pauses, steps, makes blocks, and takes the given time. */
import { type Hex, hexToNumber } from 'viem'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { fresh, requesterOf } from '../../fixtures/dev-node.ts'
import { opClient } from '../../fixtures/op-client.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

let node: RunningNode
let client: ReturnType<typeof opClient>
beforeAll(async () => {
  node = await startNode(['--ephemeral', '--rate-limit', 'off'])
  client = opClient(node.url)
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})
beforeEach(() => request('dev_pause'))

type FlashblockPosition = { readonly number: Hex; readonly index: number }
type Head = { readonly number: Hex; readonly hash: Hex }
const { request, headOf, receiptOf } = requesterOf(() => node)
const blockOf = async (tag: string) =>
  (await request('eth_getBlockByNumber', tag, false)) as {
    readonly number: Hex
    readonly hash: Hex
    readonly timestamp: Hex
    readonly transactions: readonly Hex[]
  }
const timeOf = async (tag: string) => hexToNumber((await blockOf(tag)).timestamp)

test('a paused chain makes one flashblock per step', async () => {
  const head = await headOf()
  const first = (await request('dev_step')) as FlashblockPosition
  expect(first).toEqual({ number: `0x${(head + 1).toString(16)}`, index: 0 })
  const hash = await client.sendTransaction({ to: fresh(), value: 1n })
  expect(await receiptOf(hash)).toBe(null)
  expect(await request('dev_step')).toEqual({ ...first, index: 1 })
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1', blockNumber: first.number })
  // The steps are more than a block has by itself.
  for (let index = 2; index < 8; index++)
    expect(await request('dev_step')).toEqual({ ...first, index })
  expect(await headOf()).toBe(head)
  const sealed = (await request('dev_seal')) as Head
  expect(sealed.number).toBe(first.number)
  expect(await headOf()).toBe(head + 1)
  expect(await blockOf(sealed.number)).toMatchObject({ hash: sealed.hash })
  expect((await blockOf(sealed.number)).transactions).toContain(hash)
})

test('a paused chain makes blocks on request, with pooled transactions', async () => {
  const head = await headOf()
  const hash = await client.sendTransaction({ to: fresh(), value: 1n })
  await request('evm_mine')
  expect(await headOf()).toBe(head + 1)
  expect((await blockOf('latest')).transactions).toContain(hash)
  await request('anvil_mine', '0x5', '0x3c')
  expect(await headOf()).toBe(head + 6)
  expect((await timeOf('latest')) - (await timeOf(`0x${(head + 2).toString(16)}`))).toBe(240)
  await request('dev_step')
  await request('hardhat_mine', '0x1')
  expect(await headOf()).toBe(head + 7)
  await request('evm_mine', { timestamp: null, blocks: '0x2' })
  expect(await headOf()).toBe(head + 9)
  await request('evm_mine', { timestamp: null, blocks: null })
  expect(await headOf()).toBe(head + 10)
})

test('a chain takes the given time, and continues from there', async () => {
  const before = await timeOf('latest')
  await request('evm_increaseTime', '0xe10')
  await request('evm_increaseTime', 400)
  await request('evm_mine')
  expect(await timeOf('latest')).toBe(before + 4_000)
  await request('evm_setNextBlockTimestamp', before + 5_000)
  await request('evm_mine')
  expect(await timeOf('latest')).toBe(before + 5_000)
  await request('evm_mine', `0x${(before + 6_000).toString(16)}`)
  expect(await timeOf('latest')).toBe(before + 6_000)
  await request('anvil_setBlockTimestampInterval', 7)
  await request('anvil_mine', 3)
  expect(await timeOf('latest')).toBe(before + 6_021)
  await request('anvil_removeBlockTimestampInterval')
  await request('dev_setTime', before + 10_000)
  const { number } = (await request('dev_resume')) as Head
  const next = hexToNumber(number) + 2
  await expect.poll(headOf).toBeGreaterThanOrEqual(next)
  const after = await timeOf(`0x${(next - 1).toString(16)}`)
  expect(after).toBe(before + 10_000)
  expect(await timeOf(`0x${next.toString(16)}`)).toBe(after + 1)
})

test('a chain pauses and resumes by the method names of other development nodes', async () => {
  expect(await request('anvil_getAutomine')).toBe(false)
  await request('evm_setAutomine', true)
  expect(await request('hardhat_getAutomine')).toBe(true)
  const head = await headOf()
  await expect.poll(headOf).toBeGreaterThan(head)
  await request('evm_setIntervalMining', 0)
  expect(await request('anvil_getAutomine')).toBe(false)
})

test('a deposit starts a block of a paused chain', async () => {
  const to = fresh()
  const hash = (await request('dev_deposit', { from: to, to, mint: '0x5' })) as Hex
  await expect.poll(() => receiptOf(hash)).toMatchObject({ status: '0x1' })
})

test('a running chain continues after a block that is sealed early', async () => {
  await request('dev_resume')
  const head = await headOf()
  const hash = await client.sendTransaction({ to: fresh(), value: 1n })
  const sealed = (await request('dev_seal')) as Head
  expect(hexToNumber(sealed.number)).toBeGreaterThan(head)
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
  await expect.poll(headOf).toBeGreaterThan(hexToNumber(sealed.number) + 1)
})

test('invalid controls are refused with the reason', async () => {
  const newest = await timeOf('latest')
  await expect(request('dev_setTime', newest)).rejects.toThrow(
    `-32000 the newest block has timestamp ${newest}: give a later one`,
  )
  await expect(request('evm_increaseTime', -1)).rejects.toThrow(
    '-32602 params[0]: JSON number must be an integer from 0 to 2^53 - 1; send larger numbers as strings',
  )
  await expect(request('anvil_mine', 1_001)).rejects.toThrow(
    '-32602 params[0]: expected at most 1000 blocks (--limit-mined-blocks), got 1001',
  )
  await expect(request('evm_setIntervalMining', 2)).rejects.toThrow(
    '-32602 params[0]: expected 1 (the block time, --block-time-ms) or 0 (off), got 2',
  )
  await request('dev_resume')
  await expect(request('dev_step')).rejects.toThrow(
    '-32000 the chain is not paused: dev_pause first',
  )
})
