/** Transactions of one sender, one after the other, each in a flashblock of one block: clients name no block when they prepare the next one. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { JsonRpcProvider, Wallet } from '../../clients/ethers.ts'
import { askingOf, fresh } from '../../fixtures/dev-node.ts'
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
const { ask, headOf } = askingOf(() => node)
const [owner] = DEV_ACCOUNTS

test('ethers sends ten, each with a receipt before the block is sealed', async () => {
  await ask('dev_pause')
  const head = await headOf()
  // Otherwise ethers gives the nonce that it has read less than 250 ms before.
  const provider = new JsonRpcProvider(`${node.url}/flashblocks`, undefined, { cacheTimeout: -1 })
  const wallet = new Wallet(owner!.privateKey, provider)
  await ask('dev_step')
  for (let sent = 0; sent < 10; sent++) {
    const response = await wallet.sendTransaction({ to: fresh(), value: 1n })
    const waiting = response.wait()
    await ask('dev_step')
    expect(await waiting).toMatchObject({ status: 1, blockNumber: head + 1 })
  }
  expect(await headOf()).toBe(head)
  await ask('dev_seal')
  expect(await headOf()).toBe(head + 1)
  provider.destroy()
})

test('eth_fillTransaction and eth_sendTransaction stand on the last transaction', async () => {
  await ask('dev_pause')
  const { address: from } = owner!
  const to = fresh()
  const next = async () => {
    const { tx } = (await ask('eth_fillTransaction', { from, to })) as { tx: { nonce: string } }
    return BigInt(tx.nonce)
  }
  await ask('dev_step')
  const nonce = await next()
  for (let sent = 1n; sent <= 3n; sent++) {
    const hash = await ask('eth_sendTransaction', { from, to })
    await ask('dev_step')
    expect(await ask('eth_getTransactionReceipt', hash)).toMatchObject({ status: '0x1' })
    expect(await next()).toBe(nonce + sent)
  }
  // Code that the block in progress has made is called by what is estimated next.
  const deployed = await ask('eth_sendTransaction', {
    from,
    data: '0x6460015f55005f526005601bf3',
  })
  await ask('dev_step')
  const { contractAddress } = (await ask('eth_getTransactionReceipt', deployed)) as {
    contractAddress: string
  }
  const filled = (await ask('eth_fillTransaction', { from, to: contractAddress })) as {
    tx: { gas: string }
  }
  expect(BigInt(filled.tx.gas)).toBeGreaterThan(40_000n)
})
