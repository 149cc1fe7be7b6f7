/**
 * Callers of this node have keys. The tests check their identity, their methods, and the effect of
 * a SIGHUP.
 */
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

async function request(
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
/** Waits for the log line with this text. */
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

test('callers have the limit of their key, or of the range of their address', async () => {
  expect((await request('/')).text).toContain('"by":"cost","bucket":"address","limit":null')
  expect((await request('/', { 'x-api-key': KEY })).text).toContain('"bucket":"key","limit":7')
  expect((await request(`/flashblocks/${KEY}`)).text).toContain('"bucket":"key","limit":7')
  expect((await request(`/${KEY}x`)).status).toBe(401)
  const send = await request('/', { 'x-api-key': KEY }, 'eth_sendRawTransaction', ['0x00'])
  expect(send.status).toBe(429)
  expect(send.limit).toBe('"key";q=7;w=1')
  expect(send.text).toContain('"bucket":"key","limit":7')
  expect(send.text).toContain('"cost":10')
})

test('SIGHUP reloads the keys, and closes the WebSockets of removed keys', async () => {
  const other = `${KEY}-other`
  writeFileSync(path, JSON.stringify({ partner: { key: KEY }, renamed: { key: other } }))
  node.child.kill('SIGHUP')
  expect(JSON.parse(await logged('read again'))).toMatchObject({ keys: 2 })
  const sockets = ['', `/${KEY}`, `/${other}`].map(
    (way) => new WebSocket(`${node.url.replace('http', 'ws')}${way}`),
  )
  const [ofAddress, gone, retained] = sockets as [WebSocket, WebSocket, WebSocket]
  await Promise.all(sockets.map((socket) => once(socket, 'open')))
  const closed = once(gone, 'close')
  const added = { key: `${KEY}2`, rateLimit: 9 }
  writeFileSync(path, JSON.stringify({ renamed: { key: other }, added }))
  node.child.kill('SIGHUP')
  const [code, reason] = await closed
  expect([code, String(reason)]).toEqual([1008, 'the API key is no longer valid'])
  expect([ofAddress.readyState, retained.readyState]).toEqual([WebSocket.OPEN, WebSocket.OPEN])
  for (const socket of [ofAddress, retained]) socket.terminate()
  expect((await request('/', { 'x-api-key': KEY })).status).toBe(401)
  expect((await request(`/${KEY}2`)).text).toContain('"bucket":"key","limit":9')
  writeFileSync(path, '{')
  node.child.kill('SIGHUP')
  expect(JSON.parse(await logged('keys_not_read'))).toMatchObject({ level: 40 })
  expect((await request(`/${KEY}2`)).text).toContain('"limit":9')
})

test('a slow call is logged with its cost and its times', async () => {
  // The loop ends with its gas after some milliseconds of a worker.
  const loop = { data: '0x5b600056', gas: '0x2faf080' }
  await request('/', {}, 'eth_call', [loop, 'latest'])
  // The log may have other slow calls of a busy machine too.
  const line = JSON.parse(await logged('"method":"eth_call"')) as Record<string, unknown>
  expect(line).toMatchObject({ method: 'eth_call', cost: 2, params: expect.stringContaining('5b') })
  expect(line['ms']).toBeGreaterThan(0)
  expect(line['engineMs']).toBeGreaterThan(0)
})
