/**
 * A client applies the enriched feed of a development chain without executing. After each control
 * it must have the node's state.
 */
import { once } from 'node:events'
import { type Hex, keccak256 } from 'viem'
import { afterAll, beforeAll, expect, test } from 'vitest'
import WebSocket from 'ws'
import { fresh, requesterOf } from '../../fixtures/dev-node.ts'
import { EnrichedClient } from '../../fixtures/enriched-client.ts'
import { opClient } from '../../fixtures/op-client.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

/** The contract returns its slot 1. */
const GETTER = '0x60015460005260206000f3'
const KEY = `0x${'00'.repeat(31)}01` as const
const WORD = `0x${'00'.repeat(31)}2a` as const

let node: RunningNode
let client: ReturnType<typeof opClient>
let socket: WebSocket
const applied = new EnrichedClient()
const problems: unknown[] = []
beforeAll(async () => {
  node = await startNode(['--ephemeral', '--rate-limit', 'off'])
  client = opClient(node.url)
  await request('dev_pause')
  socket = new WebSocket(`${node.url.replace('http', 'ws')}/feed?enrich=1`)
  socket.on('message', (data: Buffer) => {
    try {
      applied.apply(JSON.parse(data.toString()))
    } catch (error) {
      problems.push(error)
    }
  })
  await once(socket, 'message')
})
afterAll(async () => {
  socket.close()
  expect(await node.stop()).toBe(0)
})

type Block = { readonly hash: Hex; readonly number: Hex }
const { request } = requesterOf(() => node)
const freshLower = () => fresh().toLowerCase() as Hex

/** Checks that the client is at the node's flashblock, and has these accounts like the node. */
async function agrees(...accounts: readonly Hex[]): Promise<void> {
  const pending = (await request('eth_getBlockByNumber', 'pending', false)) as Block
  await expect.poll(() => applied.heads?.pending.hash).toBe(pending.hash)
  expect(problems).toEqual([])
  for (const address of accounts) {
    const own = applied.account(address)
    const balance = await request('eth_getBalance', address, 'pending')
    const nonce = await request('eth_getTransactionCount', address, 'pending')
    const code = (await request('eth_getCode', address, 'pending')) as Hex
    // The client does not have accounts that were never emitted or were removed; they count as
    // empty here.
    const none = { balance: '0x0', nonce: '0x0', codeHash: keccak256('0x') }
    expect(own ?? none).toEqual({ balance, nonce, codeHash: keccak256(code) })
    const slot = applied.slot(address, KEY) ?? `0x${'00'.repeat(32)}`
    expect(slot).toBe(await request('eth_getStorageAt', address, KEY, 'pending'))
  }
  const block = applied.blocks.at(-1)
  if (block !== undefined)
    expect(applied.rpcReceipts(block)).toEqual(await request('eth_getBlockReceipts', 'pending'))
}

test('a client agrees with the node after edits, broken promises and reverts', async () => {
  const [contract, to] = [freshLower(), freshLower()]
  await request('anvil_setBalance', contract, '0x64')
  await agrees(contract)
  await request('dev_setState', {
    [contract]: { code: GETTER, nonce: '0x1', stateDiff: { [KEY]: WORD } },
  })
  await agrees(contract)
  const id = await request('evm_snapshot')
  await request('dev_step')
  await client.sendTransaction({ to, value: 5n })
  await request('dev_step')
  await agrees(contract, to)
  await request('dev_reorg', { depth: 0 })
  await agrees(contract, to)
  await client.sendTransaction({ to, value: 6n })
  await request('dev_step')
  await request('dev_equivocate')
  await request('dev_seal')
  await agrees(to)
  await client.sendTransaction({ to, value: 7n })
  await request('anvil_mine', 3)
  await request('anvil_setStorageAt', contract, KEY, `0x${'00'.repeat(32)}`)
  await agrees(contract, to)
  await request('dev_reorg', { depth: 2 })
  await agrees(contract, to)
  expect(await request('evm_revert', id)).toBe(true)
  await agrees(contract, to)
  await request('evm_mine')
  await agrees(contract, to)
  expect(applied.slot(contract, KEY)).toBe(WORD)
})
