/**
 * An application runs on a development chain whose promises fail on demand: real clients, HTTP and
 * WebSocket.
 */
import { createPublicClient, type Hex, hexToNumber, type Log, numberToHex, webSocket } from 'viem'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { fresh, requesterOf } from '../../fixtures/dev-node.ts'
import { opClient } from '../../fixtures/op-client.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

let node: RunningNode
let client: ReturnType<typeof opClient>
beforeAll(async () => {
  node = await startNode([
    '--ephemeral',
    '--rate-limit',
    'off',
    '--finalized-lag',
    '12',
    '--safe-lag',
    '4',
  ])
  client = opClient(node.url)
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})
beforeEach(() => request('dev_pause'))

type Head = { readonly number: Hex; readonly hash: Hex }
const { request, headOf, receiptOf } = requesterOf(() => node)
const statusOf = (hash: Hex) => request('flashblocks_transactionStatus', hash)
const balanceOf = (address: Hex, tag = 'pending') => request('eth_getBalance', address, tag)

/** The contract logs topic 0x2a on each call. */
const LOGGER = '0x65602a5f5fa1005f526006601af3'

type Subscribed = { readonly logs: Log[]; unsubscribe(): Promise<unknown> }
async function subscribe(params: readonly unknown[]): Promise<Subscribed> {
  const { transport } = createPublicClient({
    transport: webSocket(`${node.url.replace('http', 'ws')}/flashblocks`),
  })
  const logs: Log[] = []
  const { unsubscribe } = await transport.subscribe({
    params: params as ['logs', object],
    onData: (data) => void logs.push(data.result),
    onError() {},
  })
  return { logs, unsubscribe }
}
async function deployLogger(): Promise<Hex> {
  const hash = await client.deployContract({ abi: [], bytecode: LOGGER })
  await request('dev_seal')
  return (await client.getTransactionReceipt({ hash })).contractAddress!
}

test('a preconfirmed transaction is dropped when its block is replaced', async () => {
  const address = await deployLogger()
  const { logs, unsubscribe } = await subscribe(['pendingLogs', { address }])
  await request('dev_step')
  const hash = await client.sendTransaction({ to: address, data: '0x01' })
  expect(await statusOf(hash)).toMatchObject({ status: 'pooled' })
  await request('dev_step')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1', logs: [{ address }] })
  expect(await statusOf(hash)).toMatchObject({ status: 'preconfirmed' })
  await expect.poll(() => logs.length).toBe(1)
  expect(await request('dev_reorg', { depth: 0 })).toMatchObject({ removed: [], dropped: [hash] })
  expect(await receiptOf(hash)).toBe(null)
  await expect.poll(() => logs.length).toBe(2)
  expect(logs.map(({ removed, transactionHash }) => [removed, transactionHash])).toEqual([
    [false, hash],
    [true, hash],
  ])
  await request('dev_step')
  await request('dev_seal')
  expect(await receiptOf(hash)).toBe(null)
  expect(await request('eth_getTransactionByHash', hash)).toBe(null)
  expect(await statusOf(hash)).toMatchObject({
    status: 'dropped',
    isWaiting: false,
    promises: [{ fate: 'dropped', causes: ['secondPayload'] }],
  })
  await unsubscribe()
})

test('a preconfirmed transaction is preconfirmed again after a reorg with keep', async () => {
  const to = fresh()
  await request('dev_step')
  const hash = await client.sendTransaction({ to, value: 5n })
  await request('dev_step')
  await request('dev_reorg', { depth: '0x0', keep: true })
  expect(await receiptOf(hash)).toBe(null)
  await expect
    .poll(async () => {
      await request('dev_step')
      return receiptOf(hash)
    })
    .toMatchObject({ status: '0x1' })
  await request('dev_seal')
  expect(await balanceOf(to, 'latest')).toBe('0x5')
})

test('a reorg of a sealed block gives removed logs, null receipts and another block', async () => {
  const address = await deployLogger()
  const { logs, unsubscribe } = await subscribe(['logs', { address }])
  await request('dev_step')
  const hash = await client.sendTransaction({ to: address })
  await request('dev_step')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
  const sealed = (await request('dev_seal')) as Head
  await expect.poll(() => logs.length).toBe(1)
  const done = await request('dev_reorg', { depth: 1 })
  expect(done).toMatchObject({ removed: [sealed.hash], dropped: [hash] })
  expect(await headOf()).toBe(hexToNumber(sealed.number) - 1)
  expect(await receiptOf(hash)).toBe(null)
  expect(await request('eth_getBlockByHash', sealed.hash, false)).toBe(null)
  expect(await statusOf(hash)).toMatchObject({ status: 'dropped', isWaiting: false })
  await expect.poll(() => logs.length).toBe(2)
  expect(logs.map(({ removed }) => removed)).toEqual([false, true])
  expect(logs[1]).toMatchObject({ transactionHash: hash, blockHash: sealed.hash })
  const repeated = (await request('dev_seal')) as Head
  expect(repeated.number).toBe(sealed.number)
  expect(repeated.hash).not.toBe(sealed.hash)
  expect(await statusOf(hash)).toMatchObject({
    status: 'dropped',
    promises: [{ fate: 'dropped', causes: ['reorg'] }],
  })
  await unsubscribe()
})

test('a reorg may include blocks in flat state, but no final block', async () => {
  const to = fresh()
  await request('anvil_mine', 14)
  const before = (await request('dev_seal')) as Head
  for (const value of [1n, 2n, 3n]) {
    await client.sendTransaction({ to, value })
    await request('dev_seal')
  }
  await request('anvil_mine', 6)
  expect(await balanceOf(to, 'latest')).toBe('0x6')
  const head = await headOf()
  const finalized = (await request('eth_getBlockByNumber', 'finalized', false)) as Head
  expect(hexToNumber(finalized.number)).toBe(head - 12)
  await expect(request('dev_reorg', { depth: 13 })).rejects.toThrow(
    `-32000 block ${head - 12} is final, and the newest is ${head}: at most 12 blocks can be taken back`,
  )
  const depth = head - hexToNumber(before.number)
  expect(await request('dev_reorg', { depth })).toMatchObject({ head: before })
  expect(await balanceOf(to, 'latest')).toBe('0x0')
  // A final block stays final.
  expect(await request('eth_getBlockByNumber', 'finalized', false)).toMatchObject({ ...finalized })
  await client.sendTransaction({ to, value: 7n })
  await request('anvil_mine', 10)
  expect(await balanceOf(to, 'latest')).toBe('0x7')
  expect(await headOf()).toBe(hexToNumber(before.number) + 10)
  const numbers = Array.from({ length: 10 }, (_, at) => hexToNumber(before.number) + 1 + at)
  let parent = before.hash
  for (const number of numbers) {
    const block = (await request('eth_getBlockByNumber', numberToHex(number), false)) as Head & {
      readonly parentHash: Hex
    }
    expect(block.parentHash).toBe(parent)
    parent = block.hash
  }
})

test('an equivocation shows one flashblock until the next one contradicts it', async () => {
  const to = fresh()
  await request('dev_step')
  const hash = await client.sendTransaction({ to, value: 5n })
  const flashblockId = await request('dev_step')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
  await request('dev_step')
  expect(await request('dev_equivocate', {})).toEqual({ flashblock: flashblockId, dropped: [hash] })
  await request('dev_step')
  await expect.poll(() => receiptOf(hash)).toBe(null)
  await request('dev_seal')
  expect(await receiptOf(hash)).toBe(null)
  expect(await statusOf(hash)).toMatchObject({
    status: 'dropped',
    promises: [{ fate: 'dropped', causes: ['equivocation'] }],
  })
  expect(await balanceOf(to, 'latest')).toBe('0x0')
  await expect(request('dev_equivocate')).rejects.toThrow('-32000 no block is in progress')
})

test('a transaction of a lost flashblock appears when its block is sealed', async () => {
  await request('dev_step')
  const hash = await client.sendTransaction({ to: fresh(), value: 5n })
  await request('dev_gap')
  await request('dev_step')
  await request('dev_step')
  expect(await receiptOf(hash)).toBe(null)
  await request('dev_seal')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
})

test('blocks continue while the feed is silent', async () => {
  await request('dev_silence', { ms: 60_000 })
  await request('dev_step')
  const hash = await client.sendTransaction({ to: fresh(), value: 5n })
  await request('dev_step')
  expect(await receiptOf(hash)).toBe(null)
  await request('dev_seal')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
  await request('dev_silence', { ms: 1 })
})

test('a running chain continues after each control', async () => {
  await request('dev_resume')
  const to = fresh()
  for (const control of ['dev_gap', 'dev_reorg', 'dev_reorg']) {
    await client.waitForTransactionReceipt({
      hash: await client.sendTransaction({ to, value: 1n }),
    })
    await request(control)
  }
  const head = await headOf()
  await expect.poll(headOf).toBeGreaterThan(head + 2)
  const hash = await client.sendTransaction({ to, value: 1n })
  expect(await client.waitForTransactionReceipt({ hash })).toMatchObject({ status: 'success' })
})

test('a reorg replaces a block that is complete but not sealed', async () => {
  await request('dev_resume')
  for (let tries = 0; tries < 3; tries++) {
    await expect.poll(newestIndex, { interval: 5 }).toBe(LAST_INDEX)
    const before = await headOf()
    const { head } = (await request('dev_reorg', { depth: 0 })) as { readonly head: Head }
    await expect.poll(headOf).toBeGreaterThan(before + 1)
    const next = numberToHex(hexToNumber(head.number) + 1)
    expect(await request('eth_getBlockByNumber', next, false)).toMatchObject({
      parentHash: head.hash,
    })
  }
})

/** The target index of a block that starts on time. */
const LAST_INDEX = 5
/** Reads the index of the newest visible flashblock. */
async function newestIndex(): Promise<number> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] })
  const headers = { 'content-type': 'application/json' }
  const { headers: reported } = await fetch(`${node.url}/flashblocks`, {
    method: 'POST',
    headers,
    body,
  })
  return Number(reported.get('x-flashblock')?.split(':')[1])
}

test('a reorg with keep includes the transactions of its blocks again', async () => {
  const to = fresh()
  const hashes: Hex[] = []
  for (let value = 1n; value <= 3n; value++) {
    hashes.push(await client.sendTransaction({ to, value }))
    await request('dev_seal')
  }
  const head = await headOf()
  await request('dev_reorg', { depth: 3, keep: true })
  await expect
    .poll(async () => (await request('txpool_status')) as object)
    .toMatchObject({
      pending: '0x3',
    })
  await request('dev_seal')
  const receipts = await Promise.all(hashes.map(receiptOf))
  for (const receipt of receipts)
    expect(receipt).toMatchObject({ status: '0x1', blockNumber: numberToHex(head - 2) })
  expect(await balanceOf(to, 'latest')).toBe('0x6')
})
