/**
 * The request limit as clients meet it: HTTP, batches and WebSocket from several addresses of one machine.
 * Usage: npm run limiter [-- flags of the node, as --front-threads 3]
 */
import { Agent, request } from 'node:http'
import { WebSocket } from 'ws'
import { checks } from './checks.ts'
import { freePort } from './free-port.ts'
import { type RunningNode, startNode } from './node-process.ts'
import { stalledSeconds } from './stalled-seconds.ts'

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

/** A second begins with its first request: what takes as long as this is over several. */
const SECOND_MS = 900
const TRIES = 8
const REST_MS = 100

type Node = RunningNode & { readonly metrics: string }
async function start(more: readonly string[]): Promise<Node> {
  const admin = await freePort()
  const flags = [...process.argv.slice(2), '--ephemeral', '--admin-port', String(admin), ...more]
  return Object.assign(await startNode(flags), { metrics: `http://127.0.0.1:${admin}/metrics` })
}

/** Asks as somebody who has not asked before; as another one where that took too long, or the node stood still. */
async function unhurt<T>(
  node: Node,
  ask: (attempt: number) => Promise<T>,
  mostMs = SECOND_MS,
): Promise<T & { readonly ms: number }> {
  for (let attempt = 1; ; attempt++) {
    const before = await stalledSeconds([node.metrics])
    const begun = performance.now()
    const said = await ask(attempt)
    const ms = performance.now() - begun
    const isHurt = ms >= mostMs || (await stalledSeconds([node.metrics])) > before
    if (!isHurt || attempt === TRIES) return { ...said, ms }
  }
}
const servedOf = (
  node: Node,
  count: number,
  send: (attempt: number) => Promise<boolean>,
): Promise<{ readonly got: number }> =>
  unhurt(node, async (attempt) => ({ got: await accepted(count, () => send(attempt)) }))

const { check, close } = checks('limiter')

const node = await start([])
const root = `${node.url}/`
const flashblocks = `${node.url}/flashblocks`

const first = await unhurt(node, async (attempt) => {
  const from = `127.0.${attempt}.1`
  const items = Array.from({ length: 30 }, (_, id) => item(id))
  return {
    batch: (await post(root, items, from)).body as Reply[],
    webSocket: await overWebSocket(flashblocks, from, 20),
    http: await accepted(50, () => single(flashblocks, from)),
    beyond: await post(root, [item(1), item(2)], from),
    httpBeyond: await accepted(20, () => single(root, from)),
    webSocketBeyond: await overWebSocket(root, from, 5),
    another: await accepted(100, () => single(root, `127.0.${attempt}.2`)),
  }
})
const { beyond } = first
check('a batch of 30 is served', first.batch.length === 30 && !first.batch.some(isLimited))
check('20 over WebSocket are served', first.webSocket === 20)
check('50 over HTTP are served', first.http === 50)
check(
  'a batch beyond the limit is refused whole, item by item, with 429',
  beyond.status === 429 &&
    (beyond.body as Reply[]).length === 2 &&
    (beyond.body as Reply[]).every(isLimited),
  JSON.stringify(beyond),
)
check('Retry-After names a second', beyond.retryAfter === '1', String(beyond.retryAfter))
check('HTTP beyond the limit is refused', first.httpBeyond === 0)
check('WebSocket beyond the limit is refused', first.webSocketBeyond === 0)
check('another address is untouched', first.another === 100)
check('all of that within the first second', first.ms < SECOND_MS, `${Math.round(first.ms)} ms`)

const { seconds } = await unhurt(
  node,
  async (attempt) => {
    const from = `127.0.${attempt}.3`
    await single(root, from)
    // Its seconds follow one another from before this on.
    const begun = performance.now()
    const seconds = [await accepted(150, () => single(root, from))]
    for (const second of [1, 2, 3]) {
      await until(begun + second * 1000 + REST_MS)
      seconds.push(await accepted(150, () => single(second === 2 ? flashblocks : root, from)))
    }
    return { seconds }
  },
  3000 + SECOND_MS,
)
check('the first of them: 99 of 150 are served', seconds[0] === 99, String(seconds[0]))
for (const second of [1, 2, 3])
  check(
    `second ${second + 1}: 100 of 150 are served`,
    seconds[second] === 100,
    String(seconds[second]),
  )
const spoofed = await servedOf(node, 120, (attempt) =>
  single(root, `127.0.${attempt}.4`, `10.0.0.${Math.floor(performance.now()) % 250}`),
)
check('a spoofed header is ignored', spoofed.got === 100, String(spoofed.got))
await node.stop()

const proxied = await start(['--trust-proxy', '127.0.0.1/32'])
const behind = `${proxied.url}/`
const forwarded = (name: string) => single(behind, '127.0.0.1', name)
const names = await unhurt(proxied, async (attempt) => ({
  one: await accepted(120, () => forwarded(`203.0.113.${attempt}`)),
  other: await accepted(100, () => forwarded(`198.18.0.${attempt}`)),
  front: await accepted(20, () => forwarded(`198.51.100.7, 198.18.0.${attempt}`)),
}))
check('behind a trusted proxy: the first forwarded address has its 100', names.one === 100)
check('a second forwarded address has its own', names.other === 100)
check('an address added in front by the client changes nothing', names.front === 0)
const itself = await servedOf(proxied, 120, (attempt) =>
  single(behind, `127.0.${attempt}.2`, '203.0.113.99'),
)
check('an address that is no proxy of ours is counted itself', itself.got === 100)
const network = await unhurt(proxied, async (attempt) => {
  const of = (host: string) => accepted(60, () => forwarded(`2001:db8:1:${attempt}${host}`))
  return { got: (await of('::1')) + (await of(':2:ffff::1')) }
})
check('IPv6 is counted by /64', network.got === 100, String(network.got))
await proxied.stop()
agent.destroy()
close()
