/**
 * The request limit as clients meet it: HTTP, batches and WebSocket from several addresses of one machine.
 * Usage: npm run limiter [-- flags of the node, as --front-threads 3]
 */
import { Agent, request } from 'node:http'
import { WebSocket } from 'ws'
import { checks } from './checks.ts'
import { startNode } from './node-process.ts'

type Answer = {
  readonly status: number
  readonly body: unknown
  readonly retryAfter: string | undefined
}
type Reply = { readonly error?: { readonly code: number } }

const agent = new Agent({ keepAlive: true, maxSockets: 20 })

function post(url: string, body: unknown, from: string, forwarded?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string> = { 'content-type': 'application/json' }
    if (forwarded !== undefined) headers['x-forwarded-for'] = forwarded
    const sent = request(
      url,
      { method: 'POST', localAddress: from, agent, headers },
      (response) => {
        let text = ''
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () =>
          resolve({
            status: response.statusCode!,
            body: JSON.parse(text),
            retryAfter: response.headers['retry-after'],
          }),
        )
      },
    )
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}

const item = (id: number) => ({ jsonrpc: '2.0', id, method: 'eth_blockNumber', params: [] })
const isLimited = (reply: unknown) => (reply as Reply).error?.code === -32005
const single = async (url: string, from: string, forwarded?: string) => {
  const { status, body } = await post(url, item(1), from, forwarded)
  if (status === 429 && isLimited(body)) return false
  if (status === 200 && !isLimited(body)) return true
  throw new Error(
    `expected 200 with a result or 429 with -32005, got ${status} ${JSON.stringify(body)}`,
  )
}
const accepted = async (count: number, send: () => Promise<boolean>) => {
  const all = await Promise.all(Array.from({ length: count }, send))
  return all.filter(Boolean).length
}

/** Sends over one WebSocket and counts the answers that are not refusals. */
async function overWebSocket(url: string, from: string, count: number): Promise<number> {
  const socket = new WebSocket(url.replace('http', 'ws'), { localAddress: from })
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  let good = 0
  let seen = 0
  const done = new Promise<void>((resolve) => {
    socket.on('message', (data) => {
      if (!isLimited(JSON.parse(data.toString()))) good++
      if (++seen === count) resolve()
    })
  })
  for (let id = 0; id < count; id++) socket.send(JSON.stringify(item(id)))
  await done
  socket.close()
  return good
}

/** Waits on the clock: the limit is one of time, so nothing else can end the wait. */
const until = (ms: number) =>
  new Promise((resolve) => setTimeout(resolve, Math.max(0, ms - performance.now())))

const { check, close } = checks('limiter')

const node = await startNode([...process.argv.slice(2), '--ephemeral'])
const root = `${node.url}/`
const flashblocks = `${node.url}/flashblocks`

const first = performance.now()
check(
  'a batch of 30 is served',
  (
    (
      await post(
        root,
        Array.from({ length: 30 }, (_, id) => item(id)),
        '127.0.0.1',
      )
    ).body as Reply[]
  ).every((reply) => !isLimited(reply)),
)
check('20 over WebSocket are served', (await overWebSocket(flashblocks, '127.0.0.1', 20)) === 20)
check(
  '50 over HTTP are served',
  (await accepted(50, () => single(flashblocks, '127.0.0.1'))) === 50,
)
const batch = await post(root, [item(1), item(2)], '127.0.0.1')
check(
  'a batch beyond the limit is refused whole, item by item, with 429',
  batch.status === 429 &&
    (batch.body as Reply[]).length === 2 &&
    (batch.body as Reply[]).every(isLimited),
  JSON.stringify(batch),
)
check('Retry-After names a second', batch.retryAfter === '1', String(batch.retryAfter))
check(
  'HTTP beyond the limit is refused',
  (await accepted(20, () => single(root, '127.0.0.1'))) === 0,
)
check('WebSocket beyond the limit is refused', (await overWebSocket(root, '127.0.0.1', 5)) === 0)
check(
  'another address is untouched',
  (await accepted(100, () => single(root, '127.0.0.2'))) === 100,
)
check(
  'all of that within the first second',
  performance.now() - first < 1000,
  `${Math.round(performance.now() - first)} ms`,
)
for (const second of [1, 2, 3]) {
  await until(first + second * 1000 + 100)
  const got = await accepted(150, () => single(second === 2 ? flashblocks : root, '127.0.0.1'))
  check(`second ${second + 1}: 100 of 150 are served`, got === 100, String(got))
}
await until(performance.now() + 1100)
check(
  'a spoofed header is ignored',
  (await accepted(120, () =>
    single(root, '127.0.0.3', `10.0.0.${Math.floor(performance.now()) % 250}`),
  )) === 100,
)
await node.stop()

const proxied = await startNode([
  ...process.argv.slice(2),
  '--ephemeral',
  '--trust-proxy',
  '127.0.0.1/32',
])
const behind = `${proxied.url}/`
check(
  'behind a trusted proxy: the first forwarded address has its 100',
  (await accepted(120, () => single(behind, '127.0.0.1', '203.0.113.1'))) === 100,
)
check(
  'a second forwarded address has its own',
  (await accepted(100, () => single(behind, '127.0.0.1', '203.0.113.2'))) === 100,
)
check(
  'an address added in front by the client changes nothing',
  (await accepted(20, () => single(behind, '127.0.0.1', `198.51.100.7, 203.0.113.2`))) === 0,
)
check(
  'an address that is no proxy of ours is counted itself',
  (await accepted(120, () => single(behind, '127.0.0.2', '203.0.113.9'))) === 100,
)
check(
  'IPv6 is counted by /64',
  (await accepted(60, () => single(behind, '127.0.0.1', '2001:db8:1:2::1'))) +
    (await accepted(60, () => single(behind, '127.0.0.1', '2001:db8:1:2:ffff::1'))) ===
    100,
)
await proxied.stop()
agent.destroy()
close()
