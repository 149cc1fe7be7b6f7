/**
 * Two nodes share one limit by Redis. The limit is exact while Redis runs; each node limits alone
 * while Redis is killed, stopped or starting. No request may fail for that or be charged twice. The
 * check needs `redis-server` (Debian: apt-get install redis-server).
 */
import { Agent } from 'node:http'
import { checks, HANGS_MS } from '../kit/checks.ts'
import { type HttpResponse, post as send } from '../kit/client.ts'
import { freePort } from '../kit/free-port.ts'
import { metricsUrl, readMetric } from '../kit/metrics.ts'
import { type RunningNode, startNode } from '../kit/node.ts'
import { startRedis } from '../kit/redis.ts'
import {
  type Counts,
  isLimitedTo,
  type Limit,
  NOTHING,
  plus,
  type RequestCounts,
  rateText,
  untilRefused,
} from './rate.ts'

const LIMIT = 100
/**
 * Half of the points less one, and some requests above the limit; so few come within one second.
 */
const [HALF, MORE] = [49, 6] as const
const agent = new Agent({ keepAlive: true, maxSockets: 40 })

type Node = RunningNode & { readonly adminUrl: string }
type Said = Pick<HttpResponse, 'status' | 'text'>

const post = (url: string, body: unknown, from: string): Promise<Said> =>
  send(`${url}/`, JSON.stringify(body), { agent, localAddress: from })

const item = { jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] }
/**
 * Whether the request was served.
 * @throws where the response is neither a result nor the refusal of the limit
 */
function isServed({ status, text }: Said): boolean {
  const isLimited = text.includes('"code":-32005') && text.includes('"reason":"rate"')
  if (status === 200 && !isLimited) return true
  if (status === 429 && isLimited) return false
  throw new Error(`expected a result or a refusal, got ${status} ${text}`)
}

/** Sends a batch of this many items, which are all served or all refused. */
async function batch({ url }: Node, count: number, from: string): Promise<Counts> {
  const items = Array.from({ length: count }, () => item)
  return { sent: count, served: isServed(await post(url, items, from)) ? count : 0 }
}
async function singles({ url }: Node, count: number, from: string): Promise<Counts> {
  const all = await Promise.all(Array.from({ length: count }, () => post(url, item, from)))
  return { sent: count, served: all.filter(isServed).length }
}
/**
 * Uses up the points at all nodes at the same time: half of the points each, then more than are
 * left.
 */
async function useUp(nodes: readonly Node[], from: string): Promise<Counts> {
  const halves = await Promise.all(nodes.map((node) => batch(node, HALF, from)))
  const more = await Promise.all(nodes.map((node) => singles(node, MORE, from)))
  return plus(...halves, ...more)
}
const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0)

/** Waits on the clock, because nothing else can end a limit of time. */
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
async function until(is: () => Promise<boolean>): Promise<boolean> {
  for (const end = performance.now() + HANGS_MS; performance.now() < end; await pause(20))
    if (await is()) return true
  return false
}

async function startLimited(store: string): Promise<Node> {
  const adminPort = await freePort()
  const flags = ['--ephemeral', '--limit-store', store, '--admin-port', String(adminPort)]
  const node = await startNode(flags)
  return { ...node, adminUrl: metricsUrl(adminPort) }
}

/** Reads a metric like an operator does. */
const metric = ({ adminUrl }: Node, what: string): Promise<number> =>
  readMetric(adminUrl, `flashnode_front{what="${what}"}`)
const areDisconnected = async (nodes: readonly Node[], is: 0 | 1): Promise<boolean> =>
  (await Promise.all(nodes.map((node) => metric(node, 'limitStoreAway')))).every((n) => n === is)

const chargedBy = async (all: readonly Node[]): Promise<number> =>
  sum(await Promise.all(all.map((node) => metric(node, 'pointsCharged'))))

/** Counts the charges that nodes decided without the store. */
const aloneOf = async (all: readonly Node[]): Promise<number> =>
  sum(await Promise.all(all.map((node) => metric(node, 'limitStoreAlone'))))

const limitOf = (nodes: readonly Node[]): Limit => ({
  perSecond: LIMIT,
  metrics: nodes.map(({ adminUrl }) => adminUrl),
})

let addresses = 0
/** Gives an address that has sent no request before. */
const someone = () => `127.0.${1 + Math.floor(addresses / 250)}.${1 + (addresses++ % 250)}`

type Steady = { readonly sentAt: number; readonly respondedAt: number; readonly isServed: boolean }

/** Sends requests to both nodes, together below the limit, so that a double charge is found. */
function steadyLoad(nodes: readonly Node[], from: string) {
  const responses: Steady[] = []
  const failed: string[] = []
  const open = new Set<Promise<void>>()
  async function request({ url }: Node): Promise<void> {
    const sentAt = performance.now()
    try {
      const isRight = isServed(await post(url, item, from))
      responses.push({ sentAt, respondedAt: performance.now(), isServed: isRight })
    } catch (error) {
      failed.push((error as Error).message)
    }
  }
  // The rate is 70 a second of the allowed 100; twice as many would exceed the limit.
  const timer = setInterval(() => {
    for (const node of nodes) {
      const openRequest = request(node)
      open.add(openRequest)
      void openRequest.finally(() => open.delete(openRequest))
    }
  }, 1_000 / 35)
  return {
    /** Waits for this many more responses. */
    async untilResponded(count: number): Promise<void> {
      const wanted = responses.length + count
      await until(async () => responses.length >= wanted)
    },
    async stop() {
      clearInterval(timer)
      await Promise.all(open)
      return { responses, failed }
    },
  }
}

/**
 * Whether the requests that may count in the second of this refusal stay below the limit. On a slow
 * machine many requests come at once, and a refusal may be right.
 */
function isWrong(refusal: Steady, responses: readonly Steady[]): boolean {
  const counted = responses.filter(
    ({ isServed, sentAt, respondedAt }) =>
      isServed && sentAt <= refusal.respondedAt && respondedAt >= refusal.sentAt - 1_000,
  )
  return counted.length < LIMIT
}

const { check, close } = checks('limit-store')
const port = await freePort()
let redis = await startRedis(port)
const nodes = await Promise.all([1, 2].map(() => startLimited(`redis://127.0.0.1:${port}`)))
const [first] = nodes as [Node, Node]
check('both nodes connect to the store', await until(() => areDisconnected(nodes, 0)))

/** Checks that both nodes together have the points of one. */
async function countTogether(what: string): Promise<void> {
  const said = await untilRefused(limitOf(nodes), async () => {
    const before = await aloneOf(nodes)
    const counts = await useUp(nodes, someone())
    // A node that waited too long for the store counted alone, so this attempt proves nothing.
    return (await aloneOf(nodes)) === before ? counts : NOTHING
  })
  check(what, isLimitedTo(LIMIT, said), rateText(said))
}
/** Checks that each node has its own points. */
async function countAlone(what: string): Promise<void> {
  const from = someone()
  const ofEach: RequestCounts[] = []
  for (const node of nodes)
    ofEach.push(
      await untilRefused(limitOf([node]), async (attempt) => {
        // The second node gets requests from the address that used up the first.
        const name = attempt === 1 ? from : someone()
        return plus(await batch(node, LIMIT, name), await singles(node, MORE, name))
      }),
    )
  check(
    what,
    ofEach.every((said) => isLimitedTo(LIMIT, said)),
    ofEach.map(rateText).join('; '),
  )
}

for (const round of [1, 2, 3])
  await countTogether(`${LIMIT} a second are served over both nodes, ${round}`)
await laterSecond()
await batches()

const load = steadyLoad(nodes, '127.0.99.1')
await load.untilResponded(30)
redis.kill('SIGKILL')
check('both nodes notice a killed store', await until(() => areDisconnected(nodes, 1)))
await countAlone('each node counts alone meanwhile')
redis = await startRedis(port)
check('both nodes use a restarted store again', await until(() => areDisconnected(nodes, 0)))
await countTogether('both nodes share one limit again')

redis.kill('SIGSTOP')
check(
  'both nodes notice a store that does not answer',
  await until(() => areDisconnected(nodes, 1)),
)
await countAlone('each node counts alone meanwhile, again')
await load.untilResponded(70)
redis.kill('SIGCONT')
check('both nodes use a resumed store again', await until(() => areDisconnected(nodes, 0)))
await countTogether('both nodes share one limit after the store resumes')
await load.untilResponded(70)
const { responses: replies, failed } = await load.stop()
const refused = replies.filter(({ isServed }) => !isServed)
const wrong = refused.filter((one) => isWrong(one, replies))
const slowestMs = Math.max(...replies.map(({ sentAt, respondedAt }) => respondedAt - sentAt))
check('no request failed because of the store', failed.length === 0, failed.slice(0, 3).join('; '))
check(
  'no request was charged twice',
  wrong.length === 0,
  `${wrong.length} of ${refused.length} refusals, ${replies.length} answers`,
)
check('no request waited without end', slowestMs < HANGS_MS, `at most ${Math.round(slowestMs)} ms`)
check('the metrics count failures of the store', (await metric(first, 'limitStoreFailures')) > 0)

const ends = await Promise.all(nodes.map((node) => node.stop()))
check(
  'both nodes end with 0',
  ends.every((code) => code === 0),
  `${ends}`,
)
redis.kill('SIGKILL')
agent.destroy()
close()

/** Checks that the seconds of an address follow one another over both nodes. */
async function laterSecond(): Promise<void> {
  const later: number[] = []
  const said = await untilRefused(limitOf(nodes), async () => {
    const from = someone()
    const one = await useUp(nodes, from)
    // The next second has started by then, however late this process is.
    const { text } = await post(first.url, item, from)
    const { error } = JSON.parse(text) as { error?: { data: { retryAfterMs: number } } }
    // The address's second ended before the refusal, so the next try decides.
    if (error === undefined) return { sent: one.served + 1, served: one.served + 1 }
    await pause(error.data.retryAfterMs + 5)
    const other = await useUp(nodes, from)
    later.push(other.served)
    return plus(one, { sent: 1, served: 0 }, other)
  })
  check(
    'the full limit is available again in a later second',
    isLimitedTo(LIMIT, said) && later.length > 0 && later.every((served) => served >= LIMIT),
    rateText(said),
  )
}

async function batches(): Promise<void> {
  const [COUNT, REMAINDER] = [60, 40] as const
  let seen = { both: 0, rest: 0, charged: 0 }
  const said = await untilRefused(limitOf(nodes), async () => {
    const from = someone()
    const before = await chargedBy(nodes)
    const two = plus(...(await Promise.all(nodes.map((node) => batch(node, COUNT, from)))))
    // A refusal proves nothing where the second ended in between.
    const isOne = two.served === COUNT
    const rest = isOne ? await batch(first, REMAINDER, from) : NOTHING
    const more = isOne ? await singles(first, MORE, from) : NOTHING
    const all = plus(two, rest, more)
    seen = { both: two.served, rest: rest.served, charged: (await chargedBy(nodes)) - before }
    return all
  })
  check(
    'of two batches of 60 for one address, one is served',
    seen.both === COUNT,
    String(seen.both),
  )
  check('a refused batch uses no points', seen.rest === REMAINDER, String(seen.rest))
  check('each served request is charged once', seen.charged === said.served, String(seen.charged))
  check('no request beyond the limit is served', said.served <= said.max, rateText(said))
}
