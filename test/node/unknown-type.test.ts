/**
 * An upstream's chain has a transaction of a type that the follower does not know. A full state
 * halts, and a lazy one goes on.
 */
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, hexToNumber, numberToHex } from 'viem'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { opClient } from '../fixtures/op-client.ts'
import { freePort } from '../kit/free-port.ts'
import { call, type RunningNode, startNode } from '../kit/node.ts'
import { headOf, readiness, until } from '../outside/follow/nodes.ts'

/** The upstream reports transactions to this address as type 0x7b. */
const STRANGE: Hex = '0x00000000000000000000000000000000000057a6'
const LONG_MS = 120_000
const folder = mkdtempSync(join(tmpdir(), 'flashnode-unknown-'))
const genesis = join(folder, 'genesis.json')
const FLAGS = ['--rate-limit', 'off', '--pool-threads', '2', '--feed', 'none']

let leader: RunningNode
let upstream: Awaited<ReturnType<typeof changedUpstream>>
beforeAll(async () => {
  leader = await startNode(['--datadir', join(folder, 'leader'), '--rate-limit', 'off'])
  copyFileSync(join(folder, 'leader', 'genesis.json'), genesis)
  upstream = await changedUpstream(leader.url)
}, LONG_MS)
afterAll(async () => {
  await leader?.stop()
  await upstream?.close()
  rmSync(folder, { recursive: true })
})

type Call = { readonly id: unknown; readonly method: string; readonly params: readonly unknown[] }
type JsonResponse = { readonly result?: { readonly transactions?: readonly Transaction[] } }
type Transaction = { readonly to?: Hex; readonly [key: string]: unknown }

/**
 * Starts a node of a later version: its blocks are the leader's, except for the type. It does not
 * serve raw blocks.
 */
async function changedUpstream(url: string) {
  const server = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const requested = JSON.parse(Buffer.concat(chunks).toString()) as Call | Call[]
      const responses = await Promise.all([requested].flat().map((one) => responseOf(url, one)))
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(Array.isArray(requested) ? responses : responses[0]))
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function responseOf(url: string, one: Call): Promise<unknown> {
  const { id, method } = one
  if (method === 'debug_getRawBlock' || method === 'eth_getRawTransactionByHash')
    return { jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } }
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...one, jsonrpc: '2.0' }),
  })
  const reply = (await response.json()) as JsonResponse
  const { transactions } = reply.result ?? {}
  if (!Array.isArray(transactions)) return reply
  const changed = transactions.map((transaction: Transaction) =>
    transaction.to === STRANGE ? { ...transaction, type: '0x7b' } : transaction,
  )
  return { ...reply, result: { ...reply.result, transactions: changed } }
}

let adminPort = 0
const metricsOf = async () => (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
const follow = async (state: readonly string[]): Promise<RunningNode> => {
  adminPort = await freePort()
  const source = ['--chain', genesis, '--upstream', upstream.url, '--admin-port', `${adminPort}`]
  return startNode(['--ephemeral', ...source, ...state, ...FLAGS], 'follow')
}
const isReady = async ({ url }: RunningNode) => (await readiness(url)).code === 200

/** Sends such a transaction and gives the number of its block. */
async function sendStrange(): Promise<number> {
  const client = opClient(leader.url)
  const hash = await client.sendTransaction({ to: STRANGE, value: 1n })
  const { blockNumber } = await client.waitForTransactionReceipt({ hash })
  return Number(blockNumber)
}
const blockAt = (of: RunningNode, number: number) =>
  call(of.url, 'eth_getBlockByNumber', [numberToHex(number), false])

test('a full state halts at a transaction of an unknown type and reports it', async () => {
  const node = await follow(['--state', 'whole'])
  expect(await until(() => isReady(node), LONG_MS)).toBe(true)
  const number = await sendStrange()
  const text = `block ${number} is `
  const isNamed = async () => (await readiness(node.url)).reasons.join().includes(text)
  expect(await until(isNamed, LONG_MS)).toBe(true)
  const { code, reasons } = await readiness(node.url)
  expect(code).toBe(503)
  expect(reasons.join()).toMatch(/but its type 0x7b of transaction 1 is not supported; a version/)
  expect(await headOf(node.url)).toBe(number - 1)
  const metrics = await metricsOf()
  expect(metrics).toMatch(/what="chain_halted"\} 1\n/)
  expect(await node.stop()).toBe(0)
})

test('a lazy state resyncs after a transaction of an unknown type and continues', async () => {
  // A state cannot start with the block that the test before has left at the head.
  const unknown = await headOf(leader.url)
  expect(await until(async () => (await headOf(leader.url)) > unknown + 4, LONG_MS)).toBe(true)
  const node = await follow(['--state', 'lazy', '--trust-upstream'])
  expect(await until(() => isReady(node), LONG_MS)).toBe(true)
  const number = await sendStrange()
  const isPast = async () => (await headOf(node.url)) > number + 2 && (await isReady(node))
  expect(await until(isPast, LONG_MS)).toBe(true)
  const head = await headOf(node.url)
  expect(await blockAt(node, head)).toEqual(await blockAt(leader, head))
  const balance = (of: RunningNode) =>
    call(of.url, 'eth_getBalance', [STRANGE, numberToHex(head)]) as Promise<Hex>
  expect(hexToNumber(await balance(node))).toBe(hexToNumber(await balance(leader)))
  const metrics = await metricsOf()
  expect(metrics).toMatch(/what="state_begun"\} 1\n/)
  expect(metrics).toMatch(/what="chain_halted"\} 1\n/)
  expect(await node.stop()).toBe(0)
})
