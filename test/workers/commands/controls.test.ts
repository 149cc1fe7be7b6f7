/** A development chain that does what it is told: stands still, steps, makes blocks, has the time that it is given. */
import { type Hex, hexToNumber } from 'viem'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { askingOf, fresh } from '../../fixtures/dev-node.ts'
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
beforeEach(() => ask('dev_pause'))

type Place = { readonly number: Hex; readonly index: number }
type Head = { readonly number: Hex; readonly hash: Hex }
const { ask, headOf, receiptOf } = askingOf(() => node)
const blockOf = async (tag: string) =>
  (await ask('eth_getBlockByNumber', tag, false)) as {
    readonly number: Hex
    readonly hash: Hex
    readonly timestamp: Hex
    readonly transactions: readonly Hex[]
  }
const timeOf = async (tag: string) => hexToNumber((await blockOf(tag)).timestamp)

test('stands still, and makes one flashblock at a time', async () => {
  const head = await headOf()
  const first = (await ask('dev_step')) as Place
  expect(first).toEqual({ number: `0x${(head + 1).toString(16)}`, index: 0 })
  const hash = await client.sendTransaction({ to: fresh(), value: 1n })
  expect(await receiptOf(hash)).toBe(null)
  expect(await ask('dev_step')).toEqual({ ...first, index: 1 })
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1', blockNumber: first.number })
  // More than a block has of itself.
  for (let index = 2; index < 8; index++) expect(await ask('dev_step')).toEqual({ ...first, index })
  expect(await headOf()).toBe(head)
  const sealed = (await ask('dev_seal')) as Head
  expect(sealed.number).toBe(first.number)
  expect(await headOf()).toBe(head + 1)
  expect(await blockOf(sealed.number)).toMatchObject({ hash: sealed.hash })
  expect((await blockOf(sealed.number)).transactions).toContain(hash)
})

test('makes blocks at a word, with what waits', async () => {
  const head = await headOf()
  const hash = await client.sendTransaction({ to: fresh(), value: 1n })
  await ask('evm_mine')
  expect(await headOf()).toBe(head + 1)
  expect((await blockOf('latest')).transactions).toContain(hash)
  await ask('anvil_mine', '0x5', '0x3c')
  expect(await headOf()).toBe(head + 6)
  expect((await timeOf('latest')) - (await timeOf(`0x${(head + 2).toString(16)}`))).toBe(240)
  await ask('dev_step')
  await ask('hardhat_mine', '0x1')
  expect(await headOf()).toBe(head + 7)
  await ask('evm_mine', { timestamp: null, blocks: '0x2' })
  expect(await headOf()).toBe(head + 9)
  await ask('evm_mine', { timestamp: null, blocks: null })
  expect(await headOf()).toBe(head + 10)
})

test('has the time that it is given, and goes on from there', async () => {
  const before = await timeOf('latest')
  await ask('evm_increaseTime', '0xe10')
  await ask('evm_increaseTime', 400)
  await ask('evm_mine')
  expect(await timeOf('latest')).toBe(before + 4_000)
  await ask('evm_setNextBlockTimestamp', before + 5_000)
  await ask('evm_mine')
  expect(await timeOf('latest')).toBe(before + 5_000)
  await ask('evm_mine', `0x${(before + 6_000).toString(16)}`)
  expect(await timeOf('latest')).toBe(before + 6_000)
  await ask('anvil_setBlockTimestampInterval', 7)
  await ask('anvil_mine', 3)
  expect(await timeOf('latest')).toBe(before + 6_021)
  await ask('anvil_removeBlockTimestampInterval')
  await ask('dev_setTime', before + 10_000)
  const { number } = (await ask('dev_resume')) as Head
  const next = hexToNumber(number) + 2
  await expect.poll(headOf).toBeGreaterThanOrEqual(next)
  const after = await timeOf(`0x${(next - 1).toString(16)}`)
  expect(after).toBe(before + 10_000)
  expect(await timeOf(`0x${next.toString(16)}`)).toBe(after + 1)
})

test('goes on, and stands still, by the names of others', async () => {
  expect(await ask('anvil_getAutomine')).toBe(false)
  await ask('evm_setAutomine', true)
  expect(await ask('hardhat_getAutomine')).toBe(true)
  const head = await headOf()
  await expect.poll(headOf).toBeGreaterThan(head)
  await ask('evm_setIntervalMining', 0)
  expect(await ask('anvil_getAutomine')).toBe(false)
})

test('a deposit begins a block of a chain that stands still', async () => {
  const to = fresh()
  const hash = (await ask('dev_deposit', { from: to, to, mint: '0x5' })) as Hex
  await expect.poll(() => receiptOf(hash)).toMatchObject({ status: '0x1' })
})

test('a block sealed before its time is a block of the running chain', async () => {
  await ask('dev_resume')
  const head = await headOf()
  const hash = await client.sendTransaction({ to: fresh(), value: 1n })
  const sealed = (await ask('dev_seal')) as Head
  expect(hexToNumber(sealed.number)).toBeGreaterThan(head)
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
  await expect.poll(headOf).toBeGreaterThan(hexToNumber(sealed.number) + 1)
})

test('says what is wrong', async () => {
  const newest = await timeOf('latest')
  await expect(ask('dev_setTime', newest)).rejects.toThrow(
    `-32000 the newest block has timestamp ${newest}: give a later one`,
  )
  await expect(ask('evm_increaseTime', -1)).rejects.toThrow(
    '-32602 params[0]: JSON number must be a whole one from 0 to 2^53 - 1; greater ones are written as text',
  )
  await expect(ask('anvil_mine', 1_001)).rejects.toThrow(
    '-32602 params[0]: at most 1000 blocks at a time (--limit-mined-blocks)',
  )
  await expect(ask('evm_setIntervalMining', 2)).rejects.toThrow(
    '-32602 params[0]: blocks of this chain come every 1 s (--block-time-ms), or not at all (0)',
  )
  await ask('dev_resume')
  await expect(ask('dev_step')).rejects.toThrow('-32000 the chain is not paused: dev_pause first')
})
