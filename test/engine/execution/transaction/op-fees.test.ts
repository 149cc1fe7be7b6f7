/**
 * viem reads L1 and operator fees of a development chain like an application, and sends
 * transactions that pay none.
 */

import { encodeFunctionData, type Hex, hexToBigInt, numberToHex, parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { accountOf, opClient, PREDEPLOY } from '../../../fixtures/op-client.ts'
import { call, type RunningNode, startNode } from '../../../kit/node.ts'

const L1_BASE_FEE = 30_000_000_000n
const OPERATOR = { scalar: 3n, constant: 12_345n }
const FLAGS = {
  'l1-base-fee': L1_BASE_FEE,
  'l1-blob-base-fee': 5_000_000,
  'operator-fee-scalar': OPERATOR.scalar,
  'operator-fee-constant': OPERATOR.constant,
  'da-footprint-scalar': 250,
}
let node: RunningNode
let client: ReturnType<typeof opClient>
beforeAll(async () => {
  const feeFlags = Object.entries(FLAGS).flatMap(([name, value]) => [`--${name}`, String(value)])
  node = await startNode(['--ephemeral', '--rate-limit', 'off', ...feeFlags])
  client = opClient(node.url)
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})

type Fields = Readonly<Record<string, Hex>>
const receiptOf = async (hash: Hex, path = '/flashblocks') =>
  (await call(node.url + path, 'eth_getTransactionReceipt', [hash])) as Fields
const sealed = (number: bigint) =>
  expect.poll(() => client.getBlockNumber({ cacheTime: 0 })).toBeGreaterThan(number)
const operatorFee = (gas: bigint) => gas * OPERATOR.scalar * 100n + OPERATOR.constant

test('a transfer pays the fees that viem estimated, to the wei, to the vaults', async () => {
  const to = privateKeyToAccount(generatePrivateKey()).address
  const request = {
    account: accountOf(2),
    to,
    value: 7n,
    maxFeePerGas: 300_000_000n,
    maxPriorityFeePerGas: 5n,
  }
  // The first block brings the L1 values.
  await sealed(0n)
  expect(await client.getL1BaseFee({})).toBe(L1_BASE_FEE)
  const l1Fee = await client.estimateL1Fee(request)
  const total = await client.estimateTotalFee(request)
  const from = opClient(node.url, 2)
  const hash = await from.sendTransaction(request)
  const { blockNumber } = await from.waitForTransactionReceipt({ hash })
  const preconfirmed = await receiptOf(hash)
  await sealed(blockNumber)
  const receipt = await receiptOf(hash, '/')
  for (const key of ['l1Fee', 'l1GasUsed', 'l1GasPrice', 'operatorFeeScalar', 'blobGasUsed'])
    expect(preconfirmed[key], key).toBe(receipt[key])
  expect(receipt).toMatchObject({
    l1Fee: numberToHex(l1Fee),
    l1GasPrice: numberToHex(L1_BASE_FEE),
    l1GasUsed: '0x640',
    l1BaseFeeScalar: numberToHex(1_368),
    l1BlobBaseFee: numberToHex(5_000_000),
    l1BlobBaseFeeScalar: numberToHex(801_949),
    operatorFeeScalar: numberToHex(OPERATOR.scalar),
    operatorFeeConstant: numberToHex(OPERATOR.constant),
    daFootprintGasScalar: numberToHex(250),
    blobGasUsed: numberToHex(25_000),
  })
  const gas = hexToBigInt(receipt['gasUsed']!)
  const price = hexToBigInt(receipt['effectiveGasPrice']!)
  const fees = 7n + gas * price + l1Fee + operatorFee(gas)
  expect(total).toBeGreaterThanOrEqual(l1Fee + operatorFee(gas) + gas * 100_000_000n)
  const before = blockNumber - 1n
  const change = async (address: Hex) =>
    (await client.getBalance({ address, blockNumber })) -
    (await client.getBalance({ address, blockNumber: before }))
  expect(-(await change(request.account.address))).toBe(fees)
  expect(await change(PREDEPLOY.l1FeeVault)).toBe(l1Fee)
  expect(await change(PREDEPLOY.operatorFeeVault)).toBe(operatorFee(gas))
  expect(await change(PREDEPLOY.baseFeeVault)).toBe(gas * 100_000_000n)
  expect(await change(PREDEPLOY.sequencerFeeVault)).toBe(gas * 5n)
  const block = (await call(node.url, 'eth_getBlockByHash', [
    receipt['blockHash'],
    false,
  ])) as Fields
  expect(block['blobGasUsed']).toBe('0x61a8')
})

test('the txpool counts both fees, and calls and estimates count none', async () => {
  const account = privateKeyToAccount(generatePrivateKey())
  const gasPrice = 200_000_000n
  const funds = 21_000n * gasPrice
  const hash = await client.sendTransaction({ to: account.address, value: funds })
  await client.waitForTransactionReceipt({ hash })
  const request = { account, to: account.address, gas: 21_000n, gasPrice, nonce: 0 }
  expect(await client.estimateGas({ ...request, blockTag: 'pending' })).toBe(21_000n)
  const l1Fee = await client.estimateL1Fee({ account, to: account.address, nonce: 0 })
  const raw = await account.signTransaction({ ...request, chainId: 196, type: 'legacy' })
  await expect(call(`${node.url}/flashblocks`, 'eth_sendRawTransaction', [raw])).rejects.toThrow(
    `-32003 insufficient funds for gas * price + value: have ${funds} want ${funds + l1Fee + operatorFee(21_000n)}`,
  )
})

test('a gasless transaction is refused until the owner enables it, and then is free', async () => {
  const abi = parseAbi([
    'function setGaslessEnabled(bool)',
    'function setFullyGaslessTarget(address, bool, uint64)',
    'function getGaslessAllowance(address, bytes) view returns (bool, uint64)',
  ])
  const whitelist = { address: PREDEPLOY.gaslessWhitelist, abi } as const
  const endpoint = `${node.url}/flashblocks`
  // A sender that pays no fee needs only value 0.
  const account = privateKeyToAccount(generatePrivateKey())
  const data = encodeFunctionData({
    abi: parseAbi(['function approve(address, uint256) returns (bool)']),
    args: [account.address, 5n],
  })
  const request = { to: PREDEPLOY.weth, data, gas: 60_000n, gasPrice: 0n, nonce: 0, chainId: 196 }
  const raw = await account.signTransaction({ ...request, type: 'legacy' })
  const send = (signed: Hex) => call(endpoint, 'eth_sendRawTransaction', [signed])
  const refusal = '-32000 max fee per gas less than block base fee'
  await expect(send(raw)).rejects.toThrow(refusal)

  const mined = async (hash: Hex) =>
    expect((await client.waitForTransactionReceipt({ hash })).status).toBe('success')
  await mined(
    await client.writeContract({
      ...whitelist,
      functionName: 'setFullyGaslessTarget',
      args: [PREDEPLOY.weth, true, 60_000n],
    }),
  )
  await expect(send(raw)).rejects.toThrow(refusal)
  await mined(
    await client.writeContract({ ...whitelist, functionName: 'setGaslessEnabled', args: [true] }),
  )
  const thirsty = await account.signTransaction({ ...request, type: 'legacy', gas: 60_001n })
  await expect(send(thirsty)).rejects.toThrow(refusal)
  await expect(
    opClient(node.url, 1).writeContract({
      ...whitelist,
      functionName: 'setGaslessEnabled',
      args: [false],
    }),
  ).rejects.toThrow()

  const estimate = (await call(endpoint, 'eth_estimateGas', [
    { from: account.address, to: PREDEPLOY.weth, data, gasPrice: '0x0' },
    'pending',
  ])) as Hex
  expect(hexToBigInt(estimate)).toBeGreaterThan(40_000n)
  const hash = (await send(raw)) as Hex
  const { blockNumber } = await client.waitForTransactionReceipt({ hash })
  const preconfirmed = await receiptOf(hash)
  await sealed(blockNumber)
  const receipt = await receiptOf(hash, '/')
  for (const one of [preconfirmed, receipt])
    expect(one).toMatchObject({ status: '0x1', effectiveGasPrice: '0x0' })
  expect(receipt['gasUsed']).toBe(preconfirmed['gasUsed'])
  const transaction = (await call(node.url, 'eth_getTransactionByHash', [hash])) as Fields
  expect(transaction['gasPrice']).toBe('0x0')
  expect(await client.getBalance({ address: account.address, blockNumber })).toBe(0n)
  expect(await client.getTransactionCount({ address: account.address, blockNumber })).toBe(1)
  const trace = await call(node.url, 'debug_traceTransaction', [hash, { tracer: 'callTracer' }])
  expect(trace).toMatchObject({ from: account.address.toLowerCase(), gasUsed: receipt['gasUsed'] })
  expect(trace).not.toHaveProperty('error')

  await mined(
    await client.writeContract({ ...whitelist, functionName: 'setGaslessEnabled', args: [false] }),
  )
  const next = await account.signTransaction({ ...request, type: 'legacy', nonce: 1 })
  await expect(send(next)).rejects.toThrow(refusal)
})
