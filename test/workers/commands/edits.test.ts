/** A development chain whose state is as somebody says, goes back to snapshots, and is as it was after a kill. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, hexToNumber, numberToHex, parseEther } from 'viem'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { askingOf, fresh } from '../../fixtures/dev-node.ts'
import { opClient } from '../../fixtures/op-client.ts'
import { freePort } from '../../kit/free-port.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

let folder: string
let node: RunningNode
let client: ReturnType<typeof opClient>
let metrics: string
async function start(): Promise<void> {
  // Every block is made again on the other engine.
  const admin = await freePort()
  metrics = `http://127.0.0.1:${admin}/metrics`
  const flags = [
    '--admin-port',
    `${admin}`,
    '--datadir',
    join(folder, 'data'),
    '--rate-limit',
    'off',
    '--verify-sample',
    '1',
  ]
  node = await startNode([
    ...flags,
    '--finalized-lag',
    '8',
    '--safe-lag',
    '4',
    '--snapshot-blocks',
    '40',
  ])
  client = opClient(node.url)
}
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'edits-'))
  await start()
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
  rmSync(folder, { recursive: true })
})
beforeEach(() => ask('dev_pause'))

type Head = { readonly number: Hex; readonly hash: Hex; readonly stateRoot: Hex }
const { ask, headOf } = askingOf(() => node)
const blockOf = (tag: string) => ask('eth_getBlockByNumber', tag, false) as Promise<Head>
const word = (value: number) => numberToHex(value, { size: 32 })

/** Returns its slot 1. */
const GETTER = '0x60015460005260206000f3'

test('accounts are as somebody says', async () => {
  const who = fresh()
  const head = await headOf()
  expect(await ask('anvil_setBalance', who, '0x64')).toBe(true)
  expect(await headOf()).toBe(head + 1)
  await ask('anvil_setNonce', who, '0x7')
  await ask('anvil_setCode', who, GETTER)
  await ask('anvil_setStorageAt', who, '0x1', word(42))
  for (const tag of ['pending', 'latest']) {
    expect(await ask('eth_getBalance', who, tag)).toBe('0x64')
    expect(await ask('eth_getTransactionCount', who, tag)).toBe('0x7')
    expect(await ask('eth_getCode', who, tag)).toBe(GETTER)
    expect(await ask('eth_getStorageAt', who, '0x1', tag)).toBe(word(42))
    expect(await ask('eth_call', { to: who }, tag)).toBe(word(42))
  }
  // Before, it was not so.
  expect(await ask('eth_getBalance', who, numberToHex(head))).toBe('0x0')
  await ask('dev_setState', {
    [who]: { balance: '0x0', nonce: '0x8', stateDiff: { [word(1)]: word(0) } },
    [fresh()]: { balance: '0x1' },
  })
  expect(await ask('eth_call', { to: who }, 'latest')).toBe(word(0))
  expect(await ask('eth_getBalance', who, 'latest')).toBe('0x0')
})

test('an edit is in a block of its own, proven by its root', async () => {
  const who = fresh()
  const waiting = await client.sendTransaction({ to: fresh(), value: 1n })
  await ask('dev_step')
  await ask('dev_step')
  await ask('anvil_setBalance', who, '0x64')
  const block = (await blockOf('latest')) as Head & { readonly transactions: readonly Hex[] }
  expect(block.transactions).toHaveLength(2)
  expect(block.transactions).not.toContain(waiting)
  const proof = (await ask('eth_getProof', who, [], 'latest')) as { readonly balance: Hex }
  expect(proof.balance).toBe('0x64')
  expect(await ask('eth_getTransactionReceipt', waiting)).toMatchObject({ status: '0x1' })
  const traced = await ask('debug_traceBlockByNumber', block.number, { tracer: 'callTracer' })
  expect(traced).toHaveLength(2)
})

test('a slot is a number: JSON, decimal text, hex with leading zeros', async () => {
  const who = fresh()
  await ask('anvil_setBalance', who, '0x1')
  for (const [at, slot] of [10, '11', '0x0c', word(13)].entries()) {
    await ask('anvil_setStorageAt', who, slot, word(at + 1))
    expect(await ask('eth_getStorageAt', who, word(at + 10), 'latest')).toBe(word(at + 1))
  }
})

test('says what cannot be', async () => {
  await expect(ask('anvil_setStorageAt', fresh(), '0x1', word(1))).rejects.toThrow(
    '-32000 an account without balance, nonce and code is none and has no storage: give it one of them first',
  )
  await expect(ask('anvil_setCode', fresh(), `0x${'00'.repeat(24_577)}`)).rejects.toThrow(
    '-32602 params[1]: code of 24577 bytes, at most 24576',
  )
  await expect(ask('dev_setState', { [fresh()]: { state: {} } })).rejects.toThrow(
    '-32602 params[0]: state cannot be set: balance, nonce, code and stateDiff can',
  )
  // The chain goes on.
  const head = await headOf()
  await ask('evm_mine')
  expect(await headOf()).toBe(head + 1)
})

test('goes back to a snapshot: blocks, edits, transactions and time', async () => {
  const [to, edited] = [fresh(), fresh()]
  const id = (await ask('evm_snapshot')) as Hex
  const before = await blockOf('latest')
  await ask('anvil_setBalance', edited, '0x5')
  const hash = await client.sendTransaction({ to, value: 3n })
  await ask('evm_mine')
  await ask('evm_increaseTime', 100_000)
  await ask('anvil_mine', 10)
  await ask('dev_step')
  await client.sendTransaction({ to, value: 4n })
  await ask('dev_step')
  expect(await ask('eth_getBalance', to, 'pending')).toBe('0x7')
  const inner = (await ask('evm_snapshot')) as Hex
  expect(await ask('evm_revert', id)).toBe(true)
  expect(await blockOf('latest')).toEqual(before)
  expect(await blockOf('pending')).toMatchObject({ number: before.number })
  for (const who of [to, edited]) expect(await ask('eth_getBalance', who, 'pending')).toBe('0x0')
  expect(await ask('eth_getTransactionReceipt', hash)).toBe(null)
  // Once, and with it those that were taken later.
  expect(await ask('evm_revert', id)).toBe(false)
  expect(await ask('evm_revert', inner)).toBe(false)
  await client.sendTransaction({ to, value: 9n })
  await ask('evm_mine')
  expect(await ask('eth_getBalance', to, 'latest')).toBe('0x9')
  const { timestamp } = await client.getBlock()
  expect(Number(timestamp)).toBeLessThan(Date.now() / 1_000 + 50_000)
})

test('a snapshot keeps blocks from becoming final, for a while', async () => {
  const id = (await ask('evm_snapshot')) as Hex
  const number = await headOf()
  await ask('anvil_mine', 30)
  expect(hexToNumber((await blockOf('finalized')).number)).toBe(number)
  expect(await ask('evm_revert', id)).toBe(true)
  expect(await headOf()).toBe(number)
  const other = (await ask('evm_snapshot')) as Hex
  await ask('anvil_mine', 45)
  await expect(ask('evm_revert', other)).rejects.toThrow(
    `-32000 the snapshot is lost: block ${number + 37} is final by now`,
  )
})

test('sends for accounts whose keys nobody has', async () => {
  const [from, to] = [fresh(), fresh()]
  await ask('anvil_setBalance', from, numberToHex(parseEther('1')))
  const send = () => ask('eth_sendTransaction', { from, to, value: '0x5' }) as Promise<Hex>
  await expect(send()).rejects.toThrow('unknown account')
  await ask('anvil_impersonateAccount', from)
  const hash = await send()
  await ask('evm_mine')
  expect(await ask('eth_getTransactionReceipt', hash)).toMatchObject({
    status: '0x1',
    from: from.toLowerCase(),
  })
  expect(await ask('eth_getBalance', to, 'latest')).toBe('0x5')
  expect(await ask('eth_getTransactionCount', from, 'latest')).toBe('0x1')
  await ask('anvil_stopImpersonatingAccount', from)
  await expect(send()).rejects.toThrow('unknown account')
  await ask('eth_sendUnsignedTransaction', { from, to, value: '0x6' })
  await ask('evm_mine')
  expect(await ask('eth_getBalance', to, 'latest')).toBe('0xb')
  const authorized = ask('eth_sendUnsignedTransaction', {
    from,
    to,
    authorizationList: [AUTHORIZATION],
  })
  await expect(authorized).rejects.toThrow('has no authorizationList: leave it out')
})
const AUTHORIZATION = {
  ...{ chainId: '0x0', address: `0x${'07'.repeat(20)}`, nonce: '0x0', yParity: '0x0' },
  ...{ r: '0x1', s: '0x1' },
}

test('the other engine comes to the same blocks, edits included', async () => {
  await ask('anvil_setBalance', fresh(), '0x1')
  await expect.poll(() => metricOf('flashnode_verified_blocks')).toBeGreaterThan(3)
  expect(await metricOf('flashnode_verify_mismatches')).toBe(0)
})

test('a plain follower stops at an edit and says why', async () => {
  const chain = join(folder, 'data', 'genesis.json')
  const source = ['--upstream', node.url, '--feed', `${node.url.replace('http', 'ws')}/feed`]
  const follower = await startNode(['--chain', chain, '--ephemeral', ...source], 'follow')
  try {
    await ask('anvil_setBalance', fresh(), '0x1')
    const reasons = async () => {
      const answer = (await (await fetch(`${follower.url}/readyz`)).json()) as {
        readonly reasons: readonly string[]
      }
      return answer.reasons.join()
    }
    await expect
      .poll(reasons)
      .toMatch(/its state was edited by hand: only the development chain that did it can go on/)
  } finally {
    expect(await follower.stop()).toBe(0)
  }
})

test('after kill -9 edits and the chain are as they were', async () => {
  const [who, to] = [fresh(), fresh()]
  const dropped = await client.sendTransaction({ to, value: 2n })
  await ask('evm_mine')
  await ask('anvil_mine', 6)
  await ask('dev_reorg', { depth: 7 })
  await ask('anvil_setCode', who, GETTER)
  await ask('anvil_setStorageAt', who, '0x1', word(42))
  const kept = await client.sendTransaction({ to, value: 1n })
  await ask('dev_seal')
  await ask('dev_step')
  const head = await blockOf('latest')
  await node.stop('SIGKILL')
  await start()
  await ask('dev_pause')
  expect(await blockOf(head.number)).toEqual(head)
  expect(await ask('eth_call', { to: who }, 'latest')).toBe(word(42))
  expect(await ask('eth_getTransactionReceipt', kept)).toMatchObject({ status: '0x1' })
  await ask('anvil_mine', 3)
  expect(await ask('eth_getTransactionReceipt', dropped)).toBe(null)
  expect(await ask('eth_getBalance', to, 'latest')).toBe('0x1')
})

async function metricOf(name: string): Promise<number> {
  const text = await (await fetch(metrics)).text()
  const lines = text.split('\n').filter((line) => line.startsWith(name))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
