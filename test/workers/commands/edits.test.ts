/** A development chain's state can be edited and reverted to snapshots, and survives a kill. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, hexToNumber, numberToHex, parseEther } from 'viem'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { fresh, requesterOf } from '../../fixtures/dev-node.ts'
import { opClient } from '../../fixtures/op-client.ts'
import { freePort } from '../../kit/free-port.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

let folder: string
let node: RunningNode
let client: ReturnType<typeof opClient>
let metrics: string
async function start(): Promise<void> {
  // Every block is verified on the other engine.
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
beforeEach(() => request('dev_pause'))

type Head = { readonly number: Hex; readonly hash: Hex; readonly stateRoot: Hex }
const { request, headOf } = requesterOf(() => node)
const blockOf = (tag: string) => request('eth_getBlockByNumber', tag, false) as Promise<Head>
const word = (value: number) => numberToHex(value, { size: 32 })

/** The contract returns its slot 1. */
const GETTER = '0x60015460005260206000f3'

test('accounts can be edited, and earlier blocks stay unchanged', async () => {
  const who = fresh()
  const head = await headOf()
  expect(await request('anvil_setBalance', who, '0x64')).toBe(true)
  expect(await headOf()).toBe(head + 1)
  await request('anvil_setNonce', who, '0x7')
  await request('anvil_setCode', who, GETTER)
  await request('anvil_setStorageAt', who, '0x1', word(42))
  for (const tag of ['pending', 'latest']) {
    expect(await request('eth_getBalance', who, tag)).toBe('0x64')
    expect(await request('eth_getTransactionCount', who, tag)).toBe('0x7')
    expect(await request('eth_getCode', who, tag)).toBe(GETTER)
    expect(await request('eth_getStorageAt', who, '0x1', tag)).toBe(word(42))
    expect(await request('eth_call', { to: who }, tag)).toBe(word(42))
  }
  // The edit does not change earlier blocks.
  expect(await request('eth_getBalance', who, numberToHex(head))).toBe('0x0')
  await request('dev_setState', {
    [who]: { balance: '0x0', nonce: '0x8', stateDiff: { [word(1)]: word(0) } },
    [fresh()]: { balance: '0x1' },
  })
  expect(await request('eth_call', { to: who }, 'latest')).toBe(word(0))
  expect(await request('eth_getBalance', who, 'latest')).toBe('0x0')
})

test('an edit has its own block, and its state root proves it', async () => {
  const who = fresh()
  const waiting = await client.sendTransaction({ to: fresh(), value: 1n })
  await request('dev_step')
  await request('dev_step')
  await request('anvil_setBalance', who, '0x64')
  const block = (await blockOf('latest')) as Head & { readonly transactions: readonly Hex[] }
  expect(block.transactions).toHaveLength(2)
  expect(block.transactions).not.toContain(waiting)
  const proof = (await request('eth_getProof', who, [], 'latest')) as { readonly balance: Hex }
  expect(proof.balance).toBe('0x64')
  expect(await request('eth_getTransactionReceipt', waiting)).toMatchObject({ status: '0x1' })
  const traced = await request('debug_traceBlockByNumber', block.number, { tracer: 'callTracer' })
  expect(traced).toHaveLength(2)
})

test('a slot may be a JSON number, decimal text, or hex with leading zeros', async () => {
  const who = fresh()
  await request('anvil_setBalance', who, '0x1')
  for (const [at, slot] of [10, '11', '0x0c', word(13)].entries()) {
    await request('anvil_setStorageAt', who, slot, word(at + 1))
    expect(await request('eth_getStorageAt', who, word(at + 10), 'latest')).toBe(word(at + 1))
  }
})

test('invalid edits are refused with the reason', async () => {
  await expect(request('anvil_setStorageAt', fresh(), '0x1', word(1))).rejects.toThrow(
    '-32000 an account without balance, nonce and code is none and has no storage: give it one of them first',
  )
  await expect(request('anvil_setCode', fresh(), `0x${'00'.repeat(24_577)}`)).rejects.toThrow(
    '-32602 params[1]: expected at most 24576 bytes of code, got 24577',
  )
  await expect(request('dev_setState', { [fresh()]: { state: {} } })).rejects.toThrow(
    '-32602 params[0]: cannot set state; expected balance, nonce, code or stateDiff',
  )
  // The chain goes on.
  const head = await headOf()
  await request('evm_mine')
  expect(await headOf()).toBe(head + 1)
})

test('a revert restores blocks, edits, transactions and time of a snapshot', async () => {
  const [to, edited] = [fresh(), fresh()]
  const id = (await request('evm_snapshot')) as Hex
  const before = await blockOf('latest')
  await request('anvil_setBalance', edited, '0x5')
  const hash = await client.sendTransaction({ to, value: 3n })
  await request('evm_mine')
  await request('evm_increaseTime', 100_000)
  await request('anvil_mine', 10)
  await request('dev_step')
  await client.sendTransaction({ to, value: 4n })
  await request('dev_step')
  expect(await request('eth_getBalance', to, 'pending')).toBe('0x7')
  const inner = (await request('evm_snapshot')) as Hex
  expect(await request('evm_revert', id)).toBe(true)
  expect(await blockOf('latest')).toEqual(before)
  expect(await blockOf('pending')).toMatchObject({ number: before.number })
  for (const who of [to, edited])
    expect(await request('eth_getBalance', who, 'pending')).toBe('0x0')
  expect(await request('eth_getTransactionReceipt', hash)).toBe(null)
  // A snapshot can be used once, and later snapshots disappear with it.
  expect(await request('evm_revert', id)).toBe(false)
  expect(await request('evm_revert', inner)).toBe(false)
  await client.sendTransaction({ to, value: 9n })
  await request('evm_mine')
  expect(await request('eth_getBalance', to, 'latest')).toBe('0x9')
  const { timestamp } = await client.getBlock()
  expect(Number(timestamp)).toBeLessThan(Date.now() / 1_000 + 50_000)
})

test('a snapshot delays finality for a limited number of blocks', async () => {
  const id = (await request('evm_snapshot')) as Hex
  const number = await headOf()
  await request('anvil_mine', 30)
  expect(hexToNumber((await blockOf('finalized')).number)).toBe(number)
  expect(await request('evm_revert', id)).toBe(true)
  expect(await headOf()).toBe(number)
  const other = (await request('evm_snapshot')) as Hex
  await request('anvil_mine', 45)
  await expect(request('evm_revert', other)).rejects.toThrow(
    `-32000 the snapshot is lost: block ${number + 37} is final by now`,
  )
})

test('impersonated accounts can send without a key', async () => {
  const [from, to] = [fresh(), fresh()]
  await request('anvil_setBalance', from, numberToHex(parseEther('1')))
  const send = () => request('eth_sendTransaction', { from, to, value: '0x5' }) as Promise<Hex>
  await expect(send()).rejects.toThrow('unknown account')
  await request('anvil_impersonateAccount', from)
  const hash = await send()
  await request('evm_mine')
  expect(await request('eth_getTransactionReceipt', hash)).toMatchObject({
    status: '0x1',
    from: from.toLowerCase(),
  })
  expect(await request('eth_getBalance', to, 'latest')).toBe('0x5')
  expect(await request('eth_getTransactionCount', from, 'latest')).toBe('0x1')
  await request('anvil_stopImpersonatingAccount', from)
  await expect(send()).rejects.toThrow('unknown account')
  await request('eth_sendUnsignedTransaction', { from, to, value: '0x6' })
  await request('evm_mine')
  expect(await request('eth_getBalance', to, 'latest')).toBe('0xb')
  const authorized = request('eth_sendUnsignedTransaction', {
    from,
    to,
    authorizationList: [AUTHORIZATION],
  })
  await expect(authorized).rejects.toThrow('cannot have an authorizationList: leave it out')
})
const AUTHORIZATION = {
  chainId: '0x0',
  address: `0x${'07'.repeat(20)}`,
  nonce: '0x0',
  yParity: '0x0',
  r: '0x1',
  s: '0x1',
}

test('the other engine computes the same blocks, edits included', async () => {
  await request('anvil_setBalance', fresh(), '0x1')
  await expect.poll(() => metricOf('flashnode_verified_blocks')).toBeGreaterThan(3)
  expect(await metricOf('flashnode_verify_mismatches')).toBe(0)
})

test('a plain follower stops at an edit and says why', async () => {
  const chain = join(folder, 'data', 'genesis.json')
  const source = ['--upstream', node.url, '--feed', `${node.url.replace('http', 'ws')}/feed`]
  const follower = await startNode(['--chain', chain, '--ephemeral', ...source], 'follow')
  try {
    await request('anvil_setBalance', fresh(), '0x1')
    const reasons = async () => {
      const response = (await (await fetch(`${follower.url}/readyz`)).json()) as {
        readonly reasons: readonly string[]
      }
      return response.reasons.join()
    }
    await expect
      .poll(reasons)
      .toMatch(/its state was edited by hand: only the development chain that did it can go on/)
  } finally {
    expect(await follower.stop()).toBe(0)
  }
})

test('edits and the chain survive kill -9', async () => {
  const [who, to] = [fresh(), fresh()]
  const dropped = await client.sendTransaction({ to, value: 2n })
  await request('evm_mine')
  await request('anvil_mine', 6)
  await request('dev_reorg', { depth: 7 })
  await request('anvil_setCode', who, GETTER)
  await request('anvil_setStorageAt', who, '0x1', word(42))
  const retained = await client.sendTransaction({ to, value: 1n })
  await request('dev_seal')
  await request('dev_step')
  const head = await blockOf('latest')
  await node.stop('SIGKILL')
  await start()
  await request('dev_pause')
  expect(await blockOf(head.number)).toEqual(head)
  expect(await request('eth_call', { to: who }, 'latest')).toBe(word(42))
  expect(await request('eth_getTransactionReceipt', retained)).toMatchObject({ status: '0x1' })
  await request('anvil_mine', 3)
  expect(await request('eth_getTransactionReceipt', dropped)).toBe(null)
  expect(await request('eth_getBalance', to, 'latest')).toBe('0x1')
})

async function metricOf(name: string): Promise<number> {
  const text = await (await fetch(metrics)).text()
  const lines = text.split('\n').filter((line) => line.startsWith(name))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
