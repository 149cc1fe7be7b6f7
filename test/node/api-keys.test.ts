/** A node whose callers have keys: who they are, what they may ask, and what a hang-up changes. */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { type RunningNode, startNode } from '../kit/node.ts'

const directory = mkdtempSync(join(tmpdir(), 'flashnode-keys-'))
const path = join(directory, 'keys.json')
const KEY = 'partner-key-0123456789'
let node: RunningNode
beforeAll(async () => {
  writeFileSync(path, JSON.stringify({ partner: { key: KEY, rateLimit: 7 } }))
  const keyed = ['--api-keys', path, '--rate-limit-of', '127.0.0.0/8=off']
  const more = ['--slow-call-ms', '1', '--slow-call-params', '--log-format', 'json']
  node = await startNode(['--ephemeral', '--limit-by', 'cost', ...keyed, ...more])
})
afterAll(async () => {
  await node.stop()
  rmSync(directory, { recursive: true })
})

async function ask(
  way: string,
  headers: Readonly<Record<string, string>> = {},
  method = 'rpc_limits',
  params: unknown[] = [],
) {
  const response = await fetch(`${node.url}${way}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const text = await response.text()
  return { status: response.status, text, limit: response.headers.get('ratelimit-policy') }
}
/** The line of the log that has it. */
async function logged(what: string): Promise<string> {
  for (;;) {
    const line = node
      .output()
      .split('\n')
      .find((one) => one.includes(what))
    if (line !== undefined) return line
    await once(node.child.stderr!, 'data')
  }
}

test('callers are known by their keys, addresses by their ranges', async () => {
  expect((await ask('/')).text).toContain('"by":"cost","bucket":"address","limit":null')
  expect((await ask('/', { 'x-api-key': KEY })).text).toContain('"bucket":"key","limit":7')
  expect((await ask(`/flashblocks/${KEY}`)).text).toContain('"bucket":"key","limit":7')
  expect((await ask(`/${KEY}x`)).status).toBe(401)
  const send = await ask('/', { 'x-api-key': KEY }, 'eth_sendRawTransaction', ['0x00'])
  expect(send.status).toBe(429)
  expect(send.limit).toBe('"key";q=7;w=1')
  expect(send.text).toContain('"bucket":"key","limit":7')
  expect(send.text).toContain('"cost":10')
})

test('a hang-up has the keys read again, and ends the WebSockets of keys that are gone', async () => {
  const other = `${KEY}-other`
  writeFileSync(path, JSON.stringify({ partner: { key: KEY }, renamed: { key: other } }))
  node.child.kill('SIGHUP')
  expect(JSON.parse(await logged('read again'))).toMatchObject({ keys: 2 })
  const sockets = ['', `/${KEY}`, `/${other}`].map(
    (way) => new WebSocket(`${node.url.replace('http', 'ws')}${way}`),
  )
  const [ofAddress, gone, kept] = sockets as [WebSocket, WebSocket, WebSocket]
  await Promise.all(sockets.map((socket) => once(socket, 'open')))
  const closed = once(gone, 'close')
  const added = { key: `${KEY}2`, rateLimit: 9 }
  writeFileSync(path, JSON.stringify({ renamed: { key: other }, added }))
  node.child.kill('SIGHUP')
  const [code, reason] = await closed
  expect([code, String(reason)]).toEqual([1008, 'its API key is not valid any more'])
  expect([ofAddress.readyState, kept.readyState]).toEqual([WebSocket.OPEN, WebSocket.OPEN])
  for (const socket of [ofAddress, kept]) socket.terminate()
  expect((await ask('/', { 'x-api-key': KEY })).status).toBe(401)
  expect((await ask(`/${KEY}2`)).text).toContain('"bucket":"key","limit":9')
  writeFileSync(path, '{')
  node.child.kill('SIGHUP')
  expect(JSON.parse(await logged('keys_not_read'))).toMatchObject({ level: 40 })
  expect((await ask(`/${KEY}2`)).text).toContain('"limit":9')
})

test('a slow call is logged with what it took', async () => {
  // A loop that ends with its gas: some milliseconds of a worker.
  const loop = { data: '0x5b600056', gas: '0x2faf080' }
  await ask('/', {}, 'eth_call', [loop, 'latest'])
  // Whatever else was slow on a busy machine stands there too.
  const line = JSON.parse(await logged('"method":"eth_call"')) as Record<string, unknown>
  expect(line).toMatchObject({ method: 'eth_call', cost: 2, params: expect.stringContaining('5b') })
  expect(line['ms']).toBeGreaterThan(0)
  expect(line['engineMs']).toBeGreaterThan(0)
})
