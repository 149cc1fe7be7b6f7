/**
 * One limit over two nodes by Redis, as clients meet it: exact while Redis is there; each node's own while it is killed, stopped or starts
 * again, and no request fails of that or is charged for twice. Needs `redis-server` (Debian: apt-get install redis-server).
 */
import { Agent } from 'node:http'
import { checks, HANGS_MS } from '../kit/checks.ts'
import { type Answer, post as send } from '../kit/client.ts'
import { freePort } from '../kit/free-port.ts'
import { type RunningNode, startNode } from '../kit/node.ts'
import { startRedis } from '../kit/redis.ts'
import {
  type Asked,
  type Counts,
  isLimitedTo,
  type Limit,
  NOTHING,
  plus,
  rateText,
  untilRefused,
} from './rate.ts'

const LIMIT = 100
/** Half of the points less one, and requests beyond: so few come in one second. */
const [HALF, MORE] = [49, 6] as const
const agent = new Agent({ keepAlive: true, maxSockets: 40 })

type Node = RunningNode & { readonly adminUrl: string }
type Said = Pick<Answer, 'status' | 'text'>

const post = (url: string, body: unknown, from: string): Promise<Said> =>
  send(`${url}/`, JSON.stringify(body), { agent, localAddress: from })

const item = { jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] }
/** Whether it was served. @throws where it is neither an answer nor the refusal of the limit */
function isServed({ status, text }: Said): boolean {
  const isLimited = text.includes('"code":-32005') && text.includes('"reason":"rate"')
  if (status === 200 && !isLimited) return true
  if (status === 429 && isLimited) return false
  throw new Error(`expected a result or a refusal, got ${status} ${text}`)
}

/** A batch of so many, which are all served or none. */
async function batch({ url }: Node, count: number, from: string): Promise<Counts> {
  const items = Array.from({ length: count }, () => item)
  return { sent: count, served: isServed(await post(url, items, from)) ? count : 0 }
}
async function singles({ url }: Node, count: number, from: string): Promise<Counts> {
  const all = await Promise.all(Array.from({ length: count }, () => post(url, item, from)))
  return { sent: count, served: all.filter(isServed).length }
}
/** To all nodes at the same time: half of the points each, then more than there are left. */
async function useUp(nodes: readonly Node[], from: string): Promise<Counts> {
  const halves = await Promise.all(nodes.map((node) => batch(node, HALF, from)))
  const more = await Promise.all(nodes.map((node) => singles(node, MORE, from)))
  return plus(...halves, ...more)
}
const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0)

/** Waits on the clock: the limit is one of time, so nothing else can end the wait. */
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
  return { ...node, adminUrl: `http://127.0.0.1:${adminPort}/metrics` }
}

/** As an operator sees it. */
async function metric({ adminUrl }: Node, what: string): Promise<number> {
  const text = await (await fetch(adminUrl)).text()
  const found = new RegExp(`^flashnode_front\\{what="${what}"\\} (\\S+)$`, 'm').exec(text)
  if (found === null) throw new Error(`no flashnode_front{what="${what}"} at ${adminUrl}`)
  return Number(found[1])
}
const areAway = async (nodes: readonly Node[], is: 0 | 1): Promise<boolean> =>
  (await Promise.all(nodes.map((node) => metric(node, 'limitStoreAway')))).every((n) => n === is)

const chargedBy = async (all: readonly Node[]): Promise<number> =>
  sum(await Promise.all(all.map((node) => metric(node, 'pointsCharged'))))

/** Charges that nodes decided without the store. */
const aloneOf = async (all: readonly Node[]): Promise<number> =>
  sum(await Promise.all(all.map((node) => metric(node, 'limitStoreAlone'))))

const limitOf = (nodes: readonly Node[]): Limit => ({
  perSecond: LIMIT,
  metrics: nodes.map(({ adminUrl }) => adminUrl),
})

let addresses = 0
/** One that has not asked before. */
const someone = () => `127.0.${1 + Math.floor(addresses / 250)}.${1 + (addresses++ % 250)}`

type Steady = { readonly sentAt: number; readonly answeredAt: number; readonly isServed: boolean }

/** Somebody who asks both nodes, together less often than may be: a double charge is found. */
function steadyLoad(nodes: readonly Node[], from: string) {
  const answers: Steady[] = []
  const failed: string[] = []
  const open = new Set<Promise<void>>()
  async function ask({ url }: Node): Promise<void> {
    const sentAt = performance.now()
    try {
      const isRight = isServed(await post(url, item, from))
      answers.push({ sentAt, answeredAt: performance.now(), isServed: isRight })
    } catch (error) {
      failed.push((error as Error).message)
    }
  }
  // 70 a second of the 100: twice as many would not fit.
  const timer = setInterval(() => {
    for (const node of nodes) {
      const asking = ask(node)
      open.add(asking)
      void asking.finally(() => open.delete(asking))
    }
  }, 1_000 / 35)
  return {
    /** So many more are answered. */
    async answered(count: number): Promise<void> {
      const wanted = answers.length + count
      await until(async () => answers.length >= wanted)
    },
    async stop() {
      clearInterval(timer)
      await Promise.all(open)
      return { answers, failed }
    },
  }
}

/**
 * The requests that may have been counted in the second of this refusal do not use that up. On a
 * slow machine many requests come at once, and a refusal may be right.
 */
function isWrong(refusal: Steady, answers: readonly Steady[]): boolean {
  const counted = answers.filter(
    ({ isServed, sentAt, answeredAt }) =>
      isServed && sentAt <= refusal.answeredAt && answeredAt >= refusal.sentAt - 1_000,
  )
  return counted.length < LIMIT
}

const { check, close } = checks('limit-store')
const port = await freePort()
let redis = await startRedis(port)
const nodes = await Promise.all([1, 2].map(() => startLimited(`redis://127.0.0.1:${port}`)))
const [first] = nodes as [Node, Node]
check('both nodes ask the store', await until(() => areAway(nodes, 0)))

/** Both nodes together have the points of one. */
async function countTogether(what: string): Promise<void> {
  const said = await untilRefused(limitOf(nodes), async () => {
    const before = await aloneOf(nodes)
    const counts = await useUp(nodes, someone())
    // A node that waited too long for an answer counted alone: such an attempt says nothing.
    return (await aloneOf(nodes)) === before ? counts : NOTHING
  })
  check(what, isLimitedTo(LIMIT, said), rateText(said))
}
/** Each has its own. */
async function countAlone(what: string): Promise<void> {
  const from = someone()
  const ofEach: Asked[] = []
  for (const node of nodes)
    ofEach.push(
      await untilRefused(limitOf([node]), async (attempt) => {
        // The second node is asked as who has used up the first.
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
await load.answered(30)
redis.kill('SIGKILL')
check('a killed store is seen', await until(() => areAway(nodes, 1)))
await countAlone('each node counts alone meanwhile')
redis = await startRedis(port)
check('one that starts again is asked again', await until(() => areAway(nodes, 0)))
await countTogether('and the limit is one again')

redis.kill('SIGSTOP')
check('a store that hangs is seen', await until(() => areAway(nodes, 1)))
await countAlone('each node counts alone meanwhile, again')
await load.answered(70)
redis.kill('SIGCONT')
check('one that goes on is asked again', await until(() => areAway(nodes, 0)))
await countTogether('and the limit is one once more')
await load.answered(70)
const { answers, failed } = await load.stop()
const refused = answers.filter(({ isServed }) => !isServed)
const wrong = refused.filter((one) => isWrong(one, answers))
const slowestMs = Math.max(...answers.map(({ sentAt, answeredAt }) => answeredAt - sentAt))
check('no request failed of it', failed.length === 0, failed.slice(0, 3).join('; '))
check(
  'none was charged for twice',
  wrong.length === 0,
  `${wrong.length} of ${refused.length} refusals, ${answers.length} answers`,
)
check('none waited for ever', slowestMs < HANGS_MS, `at most ${Math.round(slowestMs)} ms`)
check('failures are counted', (await metric(first, 'limitStoreFailures')) > 0)

const ends = await Promise.all(nodes.map((node) => node.stop()))
check(
  'both end as they should',
  ends.every((code) => code === 0),
  `${ends}`,
)
redis.kill('SIGKILL')
agent.destroy()
close()

/** The seconds of an address follow one another over both nodes. */
async function laterSecond(): Promise<void> {
  const later: number[] = []
  const said = await untilRefused(limitOf(nodes), async () => {
    const from = someone()
    const one = await useUp(nodes, from)
    // The next second has begun by then, however late this process is.
    const { text } = await post(first.url, item, from)
    const { error } = JSON.parse(text) as { error?: { data: { retryAfterMs: number } } }
    // Its second ended before the refusal: the next try decides.
    if (error === undefined) return { sent: one.served + 1, served: one.served + 1 }
    await pause(error.data.retryAfterMs + 5)
    const other = await useUp(nodes, from)
    later.push(other.served)
    return plus(one, { sent: 1, served: 0 }, other)
  })
  check(
    'and in a later second of the same address',
    isLimitedTo(LIMIT, said) && later.length > 0 && later.every((served) => served >= LIMIT),
    rateText(said),
  )
}

async function batches(): Promise<void> {
  const [COUNT, REST] = [60, 40] as const
  let seen = { both: 0, rest: 0, charged: 0 }
  const said = await untilRefused(limitOf(nodes), async () => {
    const from = someone()
    const before = await chargedBy(nodes)
    const two = plus(...(await Promise.all(nodes.map((node) => batch(node, COUNT, from)))))
    // Nothing is known of a refusal where the second was over between them.
    const isOne = two.served === COUNT
    const rest = isOne ? await batch(first, REST, from) : NOTHING
    const more = isOne ? await singles(first, MORE, from) : NOTHING
    const all = plus(two, rest, more)
    seen = { both: two.served, rest: rest.served, charged: (await chargedBy(nodes)) - before }
    return all
  })
  check('of two batches of 60 one is served', seen.both === COUNT, String(seen.both))
  check('and a refused one has used nothing', seen.rest === REST, String(seen.rest))
  check('what was served was charged once', seen.charged === said.served, String(seen.charged))
  check('and no more is served', said.served <= said.most, rateText(said))
}
