/**
 * This check tests the request limit like clients meet it: HTTP, batches and WebSocket from several
 * addresses of one machine.
 * Usage: npm run limiter [-- flags of the node, for example --front-threads 3]
 */
import { Agent } from 'node:http'
import { WebSocket } from 'ws'
import { checks } from '../kit/checks.ts'
import { post as send } from '../kit/client.ts'
import { freePort } from '../kit/free-port.ts'
import { metricsUrl } from '../kit/metrics.ts'
import { type RunningNode, startNode } from '../kit/node.ts'
import {
  type Counts,
  isLimitedTo,
  type Limit,
  NOTHING,
  plus,
  query,
  rateText,
  untilRefused,
} from './rate.ts'

type JsonResponse = {
  readonly status: number
  readonly body: unknown
  readonly retryAfter: string | undefined
}
type Reply = {
  readonly error?: { readonly code: number; readonly data?: { readonly retryAfterMs: number } }
}

/** The default number of points a second. */
const LIMIT = 100
/** Few requests exceed the limit, so that they come in the same second. */
const MORE = 10
/** Batches are sent until one is refused; a second allows one batch. */
const MAX_TURNS = 40

const agent = new Agent({ keepAlive: true, maxSockets: 20 })

async function post(
  url: string,
  body: unknown,
  from: string,
  forwarded?: string,
): Promise<JsonResponse> {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
  const said = await send(url, JSON.stringify(body), { agent, localAddress: from, headers })
  const retryAfter = said.headers['retry-after']
  return { status: said.status, body: JSON.parse(said.text), retryAfter }
}

const item = (id: number) => ({ jsonrpc: '2.0', id, method: 'eth_blockNumber', params: [] })
const items = (count: number) => Array.from({ length: count }, (_, id) => item(id))
const isLimited = (reply: unknown) => (reply as Reply).error?.code === -32005

type From = {
  readonly url: string
  readonly from: string
  /** Gives the X-Forwarded-For header of each request. */
  readonly forwarded?: (number: number) => string
}

/**
 * Sends one request of this many items.
 * @throws where the items are neither all served nor all refused
 */
async function batch(
  { url, from, forwarded }: From,
  count: number,
): Promise<Counts & { readonly response: JsonResponse }> {
  const response = await post(url, items(count), from, forwarded?.(0))
  const { status, body } = response
  const refused = (body as Reply[]).filter(isLimited).length
  const isRight = (body as Reply[]).length === count && refused === (status === 429 ? count : 0)
  if (!isRight) throw new Error(`a batch of ${count}: ${status} ${JSON.stringify(body)}`)
  return { sent: count, served: count - refused, response }
}

/**
 * Sends this many requests at once.
 * @throws for a response other than 200 with a result, or 429 with -32005
 */
async function singles({ url, from, forwarded }: From, count: number): Promise<Counts> {
  const one = async (_: unknown, number: number) => {
    const { status, body } = await post(url, item(1), from, forwarded?.(number + 1))
    if (status === 429 && isLimited(body)) return false
    if (status === 200 && !isLimited(body)) return true
    throw new Error(`expected a result or a refusal, got ${status} ${JSON.stringify(body)}`)
  }
  const all = await Promise.all(Array.from({ length: count }, one))
  return { sent: count, served: all.filter(Boolean).length }
}

/** Sends this many requests over one WebSocket. */
async function overWebSocket({ url, from }: From, count: number): Promise<Counts> {
  const socket = new WebSocket(url.replace('http', 'ws'), { localAddress: from })
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  let served = 0
  let seen = 0
  const done = new Promise<void>((resolve) => {
    socket.on('message', (data) => {
      if (!isLimited(JSON.parse(data.toString()))) served++
      if (++seen === count) resolve()
    })
  })
  for (let id = 0; id < count; id++) socket.send(JSON.stringify(item(id)))
  await done
  socket.close()
  return { sent: count, served }
}

/** Waits on the clock, because nothing else can end a limit of time. */
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

type Node = RunningNode & { readonly limit: Limit }
async function start(more: readonly string[]): Promise<Node> {
  const admin = await freePort()
  const flags = [...process.argv.slice(2), '--ephemeral', '--admin-port', String(admin), ...more]
  const limit = { perSecond: LIMIT, metrics: [metricsUrl(admin)] }
  return Object.assign(await startNode(flags), { limit })
}

const { check, close } = checks('limiter')

/**
 * Checks the limit: one batch uses up the second, and few requests follow, so that they come in the
 * same second.
 */
async function limited(
  what: string,
  { limit }: Node,
  of: (attempt: number) => From & { readonly beyond?: (from: From) => Promise<Counts> },
): Promise<void> {
  const said = await untilRefused(limit, async (attempt) => {
    const { beyond = (from: From) => singles(from, MORE), ...from } = of(attempt)
    return plus(await batch(from, LIMIT), await beyond(from))
  })
  check(what, isLimitedTo(LIMIT, said), rateText(said))
}

const node = await start([])
const root = `${node.url}/`
const flashblocks = `${node.url}/flashblocks`

const together = await untilRefused(node.limit, async (attempt) => {
  const from = `127.0.${attempt}.1`
  const first = {
    batch: await batch({ url: root, from }, 30),
    webSocket: await overWebSocket({ url: flashblocks, from }, 20),
    http: await singles({ url: flashblocks, from }, 50),
  }
  const beyond = await singles({ url: root, from }, MORE)
  return { ...first, ...plus(...Object.values(first), beyond) }
})
check('a batch of 30 is served', together.batch.served === 30)
check('20 requests over WebSocket are served', together.webSocket.served === 20)
check('50 requests over HTTP are served', together.http.served === 50)
check(
  'batch, WebSocket and HTTP together get no more than the limit',
  isLimitedTo(LIMIT, together),
  rateText(together),
)
let refused: JsonResponse | undefined
await limited(
  'a batch beyond the limit is refused completely, with 429 for each item',
  node,
  (at) => ({
    url: root,
    from: `127.0.${at}.2`,
    beyond: async (from) => {
      const said = await batch(from, 2)
      refused = said.response
      return said
    },
  }),
)
check('Retry-After is one second', refused?.retryAfter === '1', String(refused?.retryAfter))
await limited('HTTP beyond the limit is refused', node, (at) => ({
  url: flashblocks,
  from: `127.0.${at}.3`,
}))
await limited('WebSocket beyond the limit is refused', node, (at) => ({
  url: root,
  from: `127.0.${at}.4`,
  beyond: (from) => overWebSocket(from, MORE),
}))
const another = await singles({ url: root, from: '127.0.0.5' }, LIMIT)
check('another address keeps its full limit', another.served === LIMIT, String(another.served))
await seconds()
await limited('a spoofed header is ignored', node, (at) => ({
  url: root,
  from: `127.0.${at}.6`,
  forwarded: (number) => `10.0.${at}.${number}`,
}))
await node.stop()

const proxied = await start(['--trust-proxy', '127.0.0.1/32'])
const viaProxy = { url: `${proxied.url}/`, from: '127.0.0.1' }
const named = (name: string) => ({ ...viaProxy, forwarded: () => name })
await limited(
  'behind a trusted proxy, the first forwarded address has its full limit',
  proxied,
  (at) => named(`203.0.113.${at}`),
)
const second = await singles(named('192.0.2.1'), LIMIT)
check(
  'a second forwarded address has its own limit',
  second.served === LIMIT,
  String(second.served),
)
await limited('an address that the client prepends is ignored', proxied, (at) => ({
  ...named(`198.18.0.${at}`),
  beyond: () =>
    singles({ ...viaProxy, forwarded: (number) => `198.51.100.${number}, 198.18.0.${at}` }, MORE),
}))
await limited('the header of an untrusted proxy is ignored', proxied, (at) => ({
  url: viaProxy.url,
  from: `127.0.${at}.2`,
  forwarded: (number) => `203.0.114.${number}`,
}))
await limited('IPv6 is counted by /64', proxied, (at) => ({
  ...named(`2001:db8:1:${at}::1`),
  beyond: () => singles(named(`2001:db8:1:${at}:2:ffff::1`), MORE),
}))
await proxied.stop()
agent.destroy()
close()

/** Checks that the seconds of one address follow one another, each with its points and no more. */
async function seconds(): Promise<void> {
  const started: number[] = []
  const said = await query(node.limit, async () => {
    let all = NOTHING
    let leftMs = 0
    for (const url of [root, root, flashblocks, root]) {
      // The next second has started by then, however late this process is.
      if (leftMs > 0) await pause(leftMs + 5)
      let isRefused = false
      // A request above the limit may start the next second, whose points are then used up too.
      for (let turn = 0; turn < MAX_TURNS && !isRefused; turn++) {
        const { response, ...counts } = await batch(
          { url, from: '127.0.0.7' },
          turn % 2 === 0 ? LIMIT : 1,
        )
        all = plus(all, counts)
        if (turn === 0) started.push(counts.served)
        isRefused = counts.served === 0
        const [{ error }] = response.body as [Reply]
        if (isRefused) leftMs = error!.data!.retryAfterMs
      }
    }
    return all
  })
  for (const [at, served] of started.entries())
    check(`second ${at + 1}: ${LIMIT} requests are served`, served === LIMIT, String(served))
  check(
    `${started.length} seconds: no further requests are served`,
    said.served <= said.max,
    rateText(said),
  )
}
