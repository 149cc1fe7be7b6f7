/** An application's test with a node of its own: it has what a preconfirmation promises, and what it does when the promise is broken. */
import { createNode, type LocalNode } from 'flashnode'
import { createWalletClient, custom, http, parseEther, publicActions } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { xLayer } from 'viem/chains'
import { afterAll, beforeAll, expect, test } from 'vitest'

const to = '0x000000000000000000000000000000000000beef'
let node: LocalNode
const wallet = () =>
  createWalletClient({
    account: privateKeyToAccount(node.accounts[0]!.privateKey),
    chain: xLayer,
    transport: custom(node),
  }).extend(publicActions)

beforeAll(async () => {
  node = await createNode({ port: 'none', feed: 'scripted' })
}, 60_000)
afterAll(() => node.close())

test('a payment is preconfirmed by a flashblock, before its block is sealed', async () => {
  const client = wallet()
  const hash = await client.sendTransaction({ to, value: parseEther('1') })
  const flashblockId = await node.feed.push()
  const receipt = await client.getTransactionReceipt({ hash })
  expect(receipt).toMatchObject({ status: 'success', blockNumber: BigInt(flashblockId.number) })
  const request = { method: 'eth_getTransactionReceipt', params: [hash] }
  expect(await node.sealed.request(request)).toBeNull()
  expect((await node.feed.seal()).number).toBe(flashblockId.number)
  expect(await node.sealed.request(request)).toMatchObject({ status: '0x1' })
})

test('a payment that was preconfirmed is taken back', async () => {
  const client = wallet()
  const before = await client.getBalance({ address: to, blockTag: 'pending' })
  const hash = await client.sendTransaction({ to, value: parseEther('2') })
  await node.feed.push()
  expect(await client.getBalance({ address: to, blockTag: 'pending' })).toBe(
    before + parseEther('2'),
  )
  await node.feed.reorg({ depth: 0 })
  expect(await client.getBalance({ address: to, blockTag: 'pending' })).toBe(before)
  await expect(client.getTransactionReceipt({ hash })).rejects.toThrow('could not be found')
})

test('blocks come by themselves, and clients connect by HTTP', { timeout: 60_000 }, async () => {
  await using live = await createNode({ blockTimeMs: 1_000 })
  const client = createWalletClient({
    account: privateKeyToAccount(live.accounts[1]!.privateKey),
    chain: xLayer,
    transport: http(live.flashblocksUrl),
  }).extend(publicActions)
  const hash = await client.sendTransaction({ to, value: 1n })
  expect(await client.waitForTransactionReceipt({ hash })).toMatchObject({ status: 'success' })
})
