/**
 * One limit over two nodes by Redis, as clients meet it: exact while Redis is there; each node's own while it is killed, stopped or starts
 * again, and no request fails of that or is charged for twice. Needs `redis-server` (Debian: apt-get install redis-server).
 */
import { Agent, request } from 'node:http'
import { checks } from './checks.ts'
import { freePort } from './free-port.ts'
import { type RunningNode, startNode } from './node-process.ts'
import { startRedis } from './redis.ts'
import { stalledSeconds } from './stalled-seconds.ts'

const LIMIT = 100
const agent = new Agent({ keepAlive: true, maxSockets: 40 })

type Node = RunningNode & { readonly adminUrl: string }
type Said = { readonly status: number; readonly text: string }

function post(url: string, body: unknown, from: string): Promise<Said> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    const sent = request(
      `${url}/`,
      { method: 'POST', localAddress: from, agent, headers },
      (response) => {
        let text = ''
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () => resolve({ status: response.statusCode!, text }))
      },
    )
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}

const item = { jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] }
/** Whether it was served. @throws where it is neither an answer nor the refusal of the limit */
function isServed({ status, text }: Said): boolean {
  const isLimited = text.includes('"code":-32005') && text.includes('"reason":"rate"')
  if (status === 200 && !isLimited) return true
  if (status === 429 && isLimited) return false
  throw new Error(`expected a result or a refusal, got ${status} ${text}`)
}

/** So many single requests to each node, at once; gives how many each has served. */
const burst = (nodes: readonly Node[], count: number, from: string): Promise<number[]> =>
  Promise.all(
    nodes.map(async ({ url }) => {
      const all = await Promise.all(Array.from({ length: count }, () => post(url, item, from)))
      return all.filter(isServed).length
    }),
  )
const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0)

/** Waits on the clock: the limit is one of time, so nothing else can end the wait. */
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
async function until(is: () => Promise<boolean>, ms: number): Promise<boolean> {
  for (const end = performance.now() + ms; performance.now() < end; await pause(20))
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

const stoodStill = () => stalledSeconds(nodes.map(({ adminUrl }) => adminUrl))

let addresses = 0
/**
 * Does it as an address that has not asked before, within a second; again as another one where this machine was too busy for that, or a
 * node stood still meanwhile.
 */
async function fresh<T>(ask: (from: string) => Promise<T>, withinMs = 950): Promise<T> {
  for (let tries = 1; ; tries++) {
    const from = `127.0.${1 + Math.floor(addresses / 250)}.${1 + (addresses++ % 250)}`
    const stalled = await stoodStill()
    const start = performance.now()
    const said = await ask(from)
    const isSlow = performance.now() - start > withinMs || (await stoodStill()) > stalled
    if (!isSlow || tries === 20) return said
  }
}

/** Somebody who asks both nodes, together less often than may be: whoever charges twice, or waits, is found out. */
function steadyLoad(nodes: readonly Node[], from: string) {
  const counts = { served: 0, refused: 0, failed: [] as string[], slowestMs: 0 }
  const open = new Set<Promise<void>>()
  async function ask({ url }: Node): Promise<void> {
    const start = performance.now()
    try {
      if (isServed(await post(url, item, from))) counts.served++
      else counts.refused++
    } catch (error) {
      counts.failed.push((error as Error).message)
    }
    counts.slowestMs = Math.max(counts.slowestMs, performance.now() - start)
  }
  // 70 a second of the 100: twice as many would not fit.
  const timer = setInterval(() => {
    for (const node of nodes) {
      const asked = ask(node)
      open.add(asked)
      void asked.finally(() => open.delete(asked))
    }
  }, 1_000 / 35)
  return async () => {
    clearInterval(timer)
    await Promise.all(open)
    return counts
  }
}

const { check, close } = checks('limit-store')
const port = await freePort()
let redis = await startRedis(port)
const nodes = await Promise.all([1, 2].map(() => startLimited(`redis://127.0.0.1:${port}`)))
const [first] = nodes as [Node, Node]
check('both nodes ask the store', await until(() => areAway(nodes, 0), 10_000))

for (const round of [1, 2, 3]) {
  const served = await fresh((from) => burst(nodes, 80, from))
  check(`${LIMIT} of 160 are served over both nodes, ${round}`, sum(served) === LIMIT, `${served}`)
}
const later = await fresh(async (from) => {
  const start = performance.now()
  await burst(nodes, 10, from)
  // In the middle of its second second.
  await pause(1_200 - (performance.now() - start))
  return burst(nodes, 80, from)
}, 1_900)
check('and in a later second of the same address', sum(later) === LIMIT, `${later}`)

const batch = Array.from({ length: 60 }, () => item)
const { batches, rest, charged } = await fresh(async (from) => {
  const before = await chargedBy(nodes)
  const both = await Promise.all(nodes.map(({ url }) => post(url, batch, from)))
  const after = await burst(nodes, 40, from)
  const points = (await chargedBy(nodes)) - before
  return { batches: both.filter(isServed).length, rest: after, charged: points }
})
check('of two batches of 60 one is served', batches === 1, String(batches))
check('and a refused one has used nothing', sum(rest) === LIMIT - 60, `${rest}`)
check('what was served was charged once', charged === LIMIT, String(charged))

const stop = steadyLoad(nodes, '127.0.9.1')
await pause(500)
redis.kill('SIGKILL')
check('a killed store is seen', await until(() => areAway(nodes, 1), 5_000))
const alone = await fresh((from) => burst(nodes, 130, from))
check(
  'each node counts alone meanwhile',
  alone.every((one) => one === LIMIT),
  `${alone}`,
)
redis = await startRedis(port)
check('one that starts again is asked again', await until(() => areAway(nodes, 0), 10_000))
const again = await fresh((from) => burst(nodes, 80, from))
check('and the limit is one again', sum(again) === LIMIT, `${again}`)

redis.kill('SIGSTOP')
check('a store that hangs is seen', await until(() => areAway(nodes, 1), 5_000))
const hung = await fresh((from) => burst(nodes, 130, from))
check(
  'each node counts alone meanwhile, again',
  hung.every((one) => one === LIMIT),
  `${hung}`,
)
await pause(1_000)
redis.kill('SIGCONT')
check('one that goes on is asked again', await until(() => areAway(nodes, 0), 10_000))
const last = await fresh((from) => burst(nodes, 80, from))
check('and the limit is one once more', sum(last) === LIMIT, `${last}`)
await pause(500)
const { served, refused, failed, slowestMs } = await stop()
check('no request failed of it', failed.length === 0, failed.slice(0, 3).join('; '))
check('none was charged for twice', refused === 0, `${refused} refused, ${served} served`)
check('none waited for long', slowestMs < 3_000, `${Math.round(slowestMs)} ms`)
check('the load was there', served > 100, String(served))
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
