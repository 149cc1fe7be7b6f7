/**
 * One sender's transactions come one after the other, each in a flashblock of one block. Clients
 * name no block when they prepare the next one.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { JsonRpcProvider, Wallet } from '../../clients/ethers.ts'
import { fresh, requesterOf } from '../../fixtures/dev-node.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

let node: RunningNode
beforeAll(async () => {
  // A read that waits for a complete block would wait as long as the test.
  node = await startNode([
    ...['--ephemeral', '--rate-limit', 'off'],
    ...['--limit-shown-hold-ms', '60000'],
  ])
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})
const { request, headOf } = requesterOf(() => node)
const [owner] = DEV_ACCOUNTS

test('ethers sends ten transactions with receipts before their block is sealed', async () => {
  await request('dev_pause')
  const head = await headOf()
  // Without this option ethers repeats a nonce that it read less than 250 ms before.
  const provider = new JsonRpcProvider(`${node.url}/flashblocks`, undefined, { cacheTimeout: -1 })
  const wallet = new Wallet(owner!.privateKey, provider)
  await request('dev_step')
  for (let sent = 0; sent < 10; sent++) {
    const response = await wallet.sendTransaction({ to: fresh(), value: 1n })
    const waiting = response.wait()
    await request('dev_step')
    expect(await waiting).toMatchObject({ status: 1, blockNumber: head + 1 })
  }
  expect(await headOf()).toBe(head)
  await request('dev_seal')
  expect(await headOf()).toBe(head + 1)
  provider.destroy()
})

test('eth_fillTransaction and eth_sendTransaction build on the last transaction', async () => {
  await request('dev_pause')
  const { address: from } = owner!
  const to = fresh()
  const next = async () => {
    const { tx } = (await request('eth_fillTransaction', { from, to })) as { tx: { nonce: string } }
    return BigInt(tx.nonce)
  }
  await request('dev_step')
  const nonce = await next()
  for (let sent = 1n; sent <= 3n; sent++) {
    const hash = await request('eth_sendTransaction', { from, to })
    await request('dev_step')
    expect(await request('eth_getTransactionReceipt', hash)).toMatchObject({ status: '0x1' })
    expect(await next()).toBe(nonce + sent)
  }
  // The next estimate calls code that the block in progress has created.
  const deployed = await request('eth_sendTransaction', {
    from,
    data: '0x6460015f55005f526005601bf3',
  })
  await request('dev_step')
  const { contractAddress } = (await request('eth_getTransactionReceipt', deployed)) as {
    contractAddress: string
  }
  const filled = (await request('eth_fillTransaction', { from, to: contractAddress })) as {
    tx: { gas: string }
  }
  expect(BigInt(filled.tx.gas)).toBeGreaterThan(40_000n)
})
