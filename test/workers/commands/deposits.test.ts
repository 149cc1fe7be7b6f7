/**
 * viem decodes the user deposits of a development chain, and failed deposits keep their effects.
 */

import { getContractAddress, type Hex, hexToBigInt, keccak256, numberToHex, parseEther } from 'viem'
import { serializeTransaction } from 'viem/op-stack'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fresh } from '../../fixtures/dev-node.ts'
import { opClient } from '../../fixtures/op-client.ts'
import { call, type RunningNode, startNode } from '../../kit/node.ts'

let node: RunningNode
let client: ReturnType<typeof opClient>
beforeAll(async () => {
  node = await startNode(['--ephemeral', '--rate-limit', 'off', '--operator-fee-constant', '9'])
  client = opClient(node.url)
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})

type Fields = Readonly<Record<string, Hex>>
const deposit = (fields: object) => call(node.url, 'dev_deposit', [fields]) as Promise<Hex>
const receiptOf = async (hash: Hex, path = '/flashblocks') =>
  (await call(node.url + path, 'eth_getTransactionReceipt', [hash])) as Fields
const sealed = (number: bigint) =>
  expect.poll(() => client.getBlockNumber({ cacheTime: 0 })).toBeGreaterThan(number)

test('a deposit mints, pays no fee, and decodes with viem', async () => {
  const [from, to] = [fresh(), fresh()]
  const [mint, value] = [parseEther('5'), parseEther('3')]
  const hash = await deposit({ from, to, mint: numberToHex(mint), value: numberToHex(value) })
  const { blockNumber } = await client.waitForTransactionReceipt({ hash })
  const preconfirmed = await receiptOf(hash)
  await sealed(blockNumber)
  const receipt = await receiptOf(hash, '/')
  for (const one of [preconfirmed, receipt])
    expect(one).toMatchObject({
      status: '0x1',
      type: '0x7e',
      depositNonce: '0x0',
      depositReceiptVersion: '0x1',
      effectiveGasPrice: '0x0',
      gasUsed: '0x5208',
      l1Fee: '0x0',
    })
  expect(await client.getBalance({ address: from, blockNumber })).toBe(mint - value)
  expect(await client.getBalance({ address: to, blockNumber })).toBe(value)
  expect(await client.getTransactionCount({ address: from, blockNumber })).toBe(1)
  const block = await client.getBlock({ blockNumber, includeTransactions: true })
  // The deposit follows the L1 attributes.
  expect(block.transactions[1]!.hash).toBe(hash)
  const transaction = await client.getTransaction({ hash })
  if (transaction.type !== 'deposit') throw new Error(`viem calls it ${transaction.type}`)
  const { sourceHash, gas } = transaction
  expect(transaction).toMatchObject({ mint, value, nonce: 0, gasPrice: 0n })
  expect(
    keccak256(serializeTransaction({ type: 'deposit', from, to, mint, value, gas, sourceHash })),
  ).toBe(hash)
})

test('a deposit creates contracts', async () => {
  const from = fresh()
  const hash = await deposit({ from, data: '0x60016000f3' })
  await client.waitForTransactionReceipt({ hash })
  const address = getContractAddress({ from, nonce: 0n })
  expect(await client.getCode({ address, blockTag: 'pending' })).toBe('0x00')
})

test('a failed deposit leaves its mint in place, and uses all its gas', async () => {
  const [from, to] = [fresh(), fresh()]
  const hash = await deposit({ from, to, mint: '0x5', value: '0x6', gas: '0x7530' })
  await client.waitForTransactionReceipt({ hash })
  expect(await receiptOf(hash)).toMatchObject({ status: '0x0', gasUsed: '0x7530' })
  const balance = async (address: Hex) =>
    hexToBigInt(
      (await call(`${node.url}/flashblocks`, 'eth_getBalance', [address, 'pending'])) as Hex,
    )
  expect([await balance(from), await balance(to)]).toEqual([5n, 0n])
})

test('equal deposits are separate transactions, also in one block', async () => {
  const [from, to] = [fresh(), fresh()]
  const one = { from, to, mint: '0x1', value: '0x1' }
  const hashes = await Promise.all([1, 2, 3].map(() => deposit(one)))
  expect(new Set(hashes).size).toBe(3)
  for (const hash of hashes) await client.waitForTransactionReceipt({ hash })
  expect(await client.getBalance({ address: to, blockTag: 'pending' })).toBe(3n)
})

test('an invalid deposit is refused with the reason', async () => {
  await expect(deposit({ to: fresh() })).rejects.toThrow(
    '-32602 params[0].from: expected hex encoded address, got nothing',
  )
  await expect(deposit({ from: fresh(), gas: '0x1312d01' })).rejects.toThrow(
    '-32602 params[0].gas: expected at most 20000000, got 20000001',
  )
})
