/** An application on a development chain whose promises fail on demand: real clients, HTTP and WebSocket. */
import { createPublicClient, type Hex, hexToNumber, type Log, numberToHex, webSocket } from 'viem'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { askingOf, fresh } from '../../fixtures/dev-node.ts'
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
beforeEach(() => ask('dev_pause'))

type Head = { readonly number: Hex; readonly hash: Hex }
const { ask, headOf, receiptOf } = askingOf(() => node)
const statusOf = (hash: Hex) => ask('flashblocks_transactionStatus', hash)
const balanceOf = (address: Hex, tag = 'pending') => ask('eth_getBalance', address, tag)

/** Logs topic 0x2a whenever it is called. */
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
  await ask('dev_seal')
  return (await client.getTransactionReceipt({ hash })).contractAddress!
}

test('what was preconfirmed is gone when its block is replaced', async () => {
  const address = await deployLogger()
  const { logs, unsubscribe } = await subscribe(['pendingLogs', { address }])
  await ask('dev_step')
  const hash = await client.sendTransaction({ to: address, data: '0x01' })
  expect(await statusOf(hash)).toMatchObject({ status: 'pooled' })
  await ask('dev_step')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1', logs: [{ address }] })
  expect(await statusOf(hash)).toMatchObject({ status: 'preconfirmed' })
  await expect.poll(() => logs.length).toBe(1)
  expect(await ask('dev_reorg', { depth: 0 })).toMatchObject({ removed: [], dropped: [hash] })
  expect(await receiptOf(hash)).toBe(null)
  await expect.poll(() => logs.length).toBe(2)
  expect(logs.map(({ removed, transactionHash }) => [removed, transactionHash])).toEqual([
    [false, hash],
    [true, hash],
  ])
  await ask('dev_step')
  await ask('dev_seal')
  expect(await receiptOf(hash)).toBe(null)
  expect(await ask('eth_getTransactionByHash', hash)).toBe(null)
  expect(await statusOf(hash)).toMatchObject({
    status: 'dropped',
    isWaiting: false,
    promises: [{ fate: 'dropped', causes: ['secondPayload'] }],
  })
  await unsubscribe()
})

test('kept, it is preconfirmed once more', async () => {
  const to = fresh()
  await ask('dev_step')
  const hash = await client.sendTransaction({ to, value: 5n })
  await ask('dev_step')
  await ask('dev_reorg', { depth: '0x0', keep: true })
  expect(await receiptOf(hash)).toBe(null)
  await expect
    .poll(async () => {
      await ask('dev_step')
      return receiptOf(hash)
    })
    .toMatchObject({ status: '0x1' })
  await ask('dev_seal')
  expect(await balanceOf(to, 'latest')).toBe('0x5')
})

test('a sealed block is taken back: removed logs, null receipts, another block in its place', async () => {
  const address = await deployLogger()
  const { logs, unsubscribe } = await subscribe(['logs', { address }])
  await ask('dev_step')
  const hash = await client.sendTransaction({ to: address })
  await ask('dev_step')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
  const sealed = (await ask('dev_seal')) as Head
  await expect.poll(() => logs.length).toBe(1)
  const done = await ask('dev_reorg', { depth: 1 })
  expect(done).toMatchObject({ removed: [sealed.hash], dropped: [hash] })
  expect(await headOf()).toBe(hexToNumber(sealed.number) - 1)
  expect(await receiptOf(hash)).toBe(null)
  expect(await ask('eth_getBlockByHash', sealed.hash, false)).toBe(null)
  expect(await statusOf(hash)).toMatchObject({ status: 'dropped', isWaiting: false })
  await expect.poll(() => logs.length).toBe(2)
  expect(logs.map(({ removed }) => removed)).toEqual([false, true])
  expect(logs[1]).toMatchObject({ transactionHash: hash, blockHash: sealed.hash })
  const again = (await ask('dev_seal')) as Head
  expect(again.number).toBe(sealed.number)
  expect(again.hash).not.toBe(sealed.hash)
  expect(await statusOf(hash)).toMatchObject({
    status: 'dropped',
    promises: [{ fate: 'dropped', causes: ['reorg'] }],
  })
  await unsubscribe()
})

test('goes back over blocks that are in flat state, no further than what is final', async () => {
  const to = fresh()
  await ask('anvil_mine', 14)
  const before = (await ask('dev_seal')) as Head
  for (const value of [1n, 2n, 3n]) {
    await client.sendTransaction({ to, value })
    await ask('dev_seal')
  }
  await ask('anvil_mine', 6)
  expect(await balanceOf(to, 'latest')).toBe('0x6')
  const head = await headOf()
  const finalized = (await ask('eth_getBlockByNumber', 'finalized', false)) as Head
  expect(hexToNumber(finalized.number)).toBe(head - 12)
  await expect(ask('dev_reorg', { depth: 13 })).rejects.toThrow(
    `-32000 block ${head - 12} is final, and the newest is ${head}: at most 12 blocks can be taken back`,
  )
  const depth = head - hexToNumber(before.number)
  expect(await ask('dev_reorg', { depth })).toMatchObject({ head: before })
  expect(await balanceOf(to, 'latest')).toBe('0x0')
  // A final block stays final.
  expect(await ask('eth_getBlockByNumber', 'finalized', false)).toMatchObject({ ...finalized })
  await client.sendTransaction({ to, value: 7n })
  await ask('anvil_mine', 10)
  expect(await balanceOf(to, 'latest')).toBe('0x7')
  expect(await headOf()).toBe(hexToNumber(before.number) + 10)
  const numbers = Array.from({ length: 10 }, (_, at) => hexToNumber(before.number) + 1 + at)
  let parent = before.hash
  for (const number of numbers) {
    const block = (await ask('eth_getBlockByNumber', numberToHex(number), false)) as Head & {
      readonly parentHash: Hex
    }
    expect(block.parentHash).toBe(parent)
    parent = block.hash
  }
})

test('an equivocation: the first of two flashblocks is shown until the next one contradicts it', async () => {
  const to = fresh()
  await ask('dev_step')
  const hash = await client.sendTransaction({ to, value: 5n })
  const place = await ask('dev_step')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
  await ask('dev_step')
  expect(await ask('dev_equivocate', {})).toEqual({ flashblock: place, dropped: [hash] })
  await ask('dev_step')
  await expect.poll(() => receiptOf(hash)).toBe(null)
  await ask('dev_seal')
  expect(await receiptOf(hash)).toBe(null)
  expect(await statusOf(hash)).toMatchObject({
    status: 'dropped',
    promises: [{ fate: 'dropped', causes: ['equivocation'] }],
  })
  expect(await balanceOf(to, 'latest')).toBe('0x0')
  await expect(ask('dev_equivocate')).rejects.toThrow('-32000 no block is in progress')
})

test('a gap: what the lost flashblock had comes with its block', async () => {
  await ask('dev_step')
  const hash = await client.sendTransaction({ to: fresh(), value: 5n })
  await ask('dev_gap')
  await ask('dev_step')
  await ask('dev_step')
  expect(await receiptOf(hash)).toBe(null)
  await ask('dev_seal')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
})

test('a silent feed: blocks go on', async () => {
  await ask('dev_silence', { ms: 60_000 })
  await ask('dev_step')
  const hash = await client.sendTransaction({ to: fresh(), value: 5n })
  await ask('dev_step')
  expect(await receiptOf(hash)).toBe(null)
  await ask('dev_seal')
  expect(await receiptOf(hash)).toMatchObject({ status: '0x1' })
  await ask('dev_silence', { ms: 1 })
})

test('a chain that runs goes on after each', async () => {
  await ask('dev_resume')
  const to = fresh()
  for (const control of ['dev_gap', 'dev_reorg', 'dev_reorg']) {
    await client.waitForTransactionReceipt({
      hash: await client.sendTransaction({ to, value: 1n }),
    })
    await ask(control)
  }
  const head = await headOf()
  await expect.poll(headOf).toBeGreaterThan(head + 2)
  const hash = await client.sendTransaction({ to, value: 1n })
  expect(await client.waitForTransactionReceipt({ hash })).toMatchObject({ status: 'success' })
})

test('a block that readers take for complete already is replaced like any in progress', async () => {
  await ask('dev_resume')
  for (let tries = 0; tries < 3; tries++) {
    await expect.poll(newestIndex, { interval: 5 }).toBe(LAST_INDEX)
    const before = await headOf()
    const { head } = (await ask('dev_reorg', { depth: 0 })) as { readonly head: Head }
    await expect.poll(headOf).toBeGreaterThan(before + 1)
    const next = numberToHex(hexToNumber(head.number) + 1)
    expect(await ask('eth_getBlockByNumber', next, false)).toMatchObject({
      parentHash: head.hash,
    })
  }
})

/** The target index of a block that begins on time. */
const LAST_INDEX = 5
/** Of the newest flashblock that is shown. */
async function newestIndex(): Promise<number> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] })
  const headers = { 'content-type': 'application/json' }
  const { headers: told } = await fetch(`${node.url}/flashblocks`, {
    method: 'POST',
    headers,
    body,
  })
  return Number(told.get('x-flashblock')?.split(':')[1])
}

test('what sealed blocks had is in the blocks that take their place', async () => {
  const to = fresh()
  const hashes: Hex[] = []
  for (let value = 1n; value <= 3n; value++) {
    hashes.push(await client.sendTransaction({ to, value }))
    await ask('dev_seal')
  }
  const head = await headOf()
  await ask('dev_reorg', { depth: 3, keep: true })
  await expect
    .poll(async () => (await ask('txpool_status')) as object)
    .toMatchObject({
      pending: '0x3',
    })
  await ask('dev_seal')
  const receipts = await Promise.all(hashes.map(receiptOf))
  for (const receipt of receipts)
    expect(receipt).toMatchObject({ status: '0x1', blockNumber: numberToHex(head - 2) })
  expect(await balanceOf(to, 'latest')).toBe('0x6')
})
