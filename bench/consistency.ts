/**
 * Measures what clients see of several replicas behind one address, one of them late. It prints how
 * often a view goes back, its age, and response times. Needs `haproxy` and `redis-server`.
 * Usage: npm run bench:consistency -- [--seconds 4] [--clients 12]
 */
import { Agent, request } from 'node:http'
import { parseArgs } from 'node:util'
import { freePort } from '../test/kit/free-port.ts'
import { startRedis } from '../test/kit/redis.ts'
import { startLeader } from '../test/outside/follow/nodes.ts'
import type { Replica } from '../test/outside/scale/proxy.ts'
import {
  balance,
  type FlashblockPosition,
  feedOf,
  followNewest,
  isBefore,
  lateFeed,
  type Newest,
  type Sticking,
  startReplicas,
} from './scale/service.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '4' },
    clients: { type: 'string', default: '12' },
  },
})
const SECONDS = Number(values.seconds)
const CLIENTS = Number(values.clients)
/** One client sends at most 20 requests a second. */
const PAUSE_MS = 50
/** A replica that joins within a block lacks its flashblocks. */
const SETTLE_MS = 3_000
const LATE_MS = [50, 150] as const
const ADDRESS = `0x${'11'.repeat(20)}`
const REQUESTED = ['eth_getTransactionCount', 'eth_getBalance'] as const

type Form = {
  readonly name: string
  readonly sticking: Sticking
  readonly keepsCookie?: boolean
  readonly sendsPosition?: boolean
  readonly killsOne?: boolean
}
const PLAIN: readonly Form[] = [
  { name: 'round robin', sticking: 'nothing' },
  { name: 'cookie, sent back', sticking: 'cookie', keepsCookie: true },
  { name: 'cookie, not sent back', sticking: 'cookie' },
  { name: '`X-Min-Flashblock`', sticking: 'nothing', sendsPosition: true },
  { name: 'table', sticking: 'table' },
  { name: 'table, one killed', sticking: 'table', killsOne: true },
]
const laggingForms = (name: string): readonly Form[] => [{ name, sticking: 'nothing' }]

type Seen = { backs: number; clientsBack: number; failed: number; ages: number[]; ms: number[] }

async function measure(form: Form, replicas: readonly Replica[], newest: Newest): Promise<Seen> {
  const balancer = await balance(replicas, form.sticking)
  const seen: Seen = { backs: 0, clientsBack: 0, failed: 0, ages: [], ms: [] }
  const untilMs = performance.now() + SECONDS * 1_000
  const all = Array.from({ length: CLIENTS }, (_, at) =>
    sendRequest(
      { form, url: `${balancer.url}/flashblocks`, from: `127.0.4.${at + 1}` },
      { untilMs, newest, seen },
    ),
  )
  if (form.killsOne === true) {
    await pause(SECONDS * 500)
    replicas[0]!.node.child.kill('SIGKILL')
  }
  await Promise.all(all)
  await balancer.stop()
  return seen
}

async function sendRequest(
  { form, url, from }: { readonly form: Form; readonly url: string; readonly from: string },
  to: { readonly untilMs: number; readonly newest: Newest; readonly seen: Seen },
): Promise<void> {
  const { seen } = to
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let [last, cookie, backs]: [FlashblockPosition | undefined, string | undefined, number] = [
    undefined,
    undefined,
    0,
  ]
  for (let turn = 0; performance.now() < to.untilMs; turn++) {
    const started = performance.now()
    const headers = {
      'content-type': 'application/json',
      ...(form.keepsCookie && cookie !== undefined && { cookie }),
      ...(form.sendsPosition && last && { 'x-min-flashblock': `${last.number}:${last.index}` }),
    }
    const said = await post({ url, from, agent, headers, method: REQUESTED[turn % 2]! })
    seen.ms.push(performance.now() - started)
    cookie = said?.cookie ?? cookie
    if (said?.position === undefined) seen.failed++
    else {
      seen.ages.push(to.newest.ageOf(said.position))
      if (last !== undefined && isBefore(said.position, last)) backs++
      last = said.position
    }
    await pause(PAUSE_MS - (performance.now() - started))
  }
  agent.destroy()
  seen.backs += backs
  if (backs > 0) seen.clientsBack++
}

type Posted = {
  readonly url: string
  readonly from: string
  readonly agent: Agent
  readonly headers: Readonly<Record<string, string>>
  readonly method: string
}
/** Resolves to undefined without a response, and to an object without a position after an error. */
function post({ url, from, agent, headers, method }: Posted) {
  return new Promise<
    { readonly position?: FlashblockPosition; readonly cookie?: string } | undefined
  >((resolve) => {
    const options = { method: 'POST', localAddress: from, agent, headers }
    const sent = request(url, options, (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('error', () => resolve(undefined))
      response.on('end', () => {
        const [number, index] = String(response.headers['x-flashblock']).split(':').map(Number)
        const cookie = response.headers['set-cookie']?.[0]?.split(';')[0]
        const isResponse = response.statusCode === 200 && text.includes('"result"')
        resolve({
          ...(isResponse && { position: { number: number!, index: index! } }),
          ...(cookie !== undefined && { cookie }),
        })
      })
    })
    sent.on('error', () => resolve(undefined))
    sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [ADDRESS, 'pending'] }))
  })
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
function quantile(numbers: readonly number[], share: number): string {
  const sorted = numbers.toSorted((a, b) => a - b)
  return (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(0)
}

function print(name: string, { backs, clientsBack, failed, ages, ms }: Seen): void {
  const row = [
    ...[name, ages.length, backs, `${clientsBack} of ${CLIENTS}`, failed],
    ...[quantile(ages, 0.5), quantile(ages, 0.99), quantile(ms, 0.5), quantile(ms, 0.99)],
  ]
  console.log(`| ${row.join(' | ')} |`)
}

const redisPort = await freePort()
const redis = await startRedis(redisPort)
const leader = await startLeader(Math.random, 10)
const late = await lateFeed(feedOf(leader.node.url), LATE_MS)
const newest = followNewest(feedOf(leader.node.url))
const shared = ['--share-transactions', `redis://127.0.0.1:${redisPort}`]

console.log(
  '| form | responses | went back | clients | failed | age p50, ms | p99 | latency p50, ms | p99 |\n|---|---|---|---|---|---|---|---|---|',
)
const sets: readonly (readonly [readonly string[], readonly Form[]])[] = [
  [[], PLAIN],
  [['--flashblock-lag', '1'], laggingForms('`--flashblock-lag 1`, each alone')],
  [
    ['--flashblock-lag', '1', ...shared],
    [
      ...laggingForms('`--flashblock-lag 1`'),
      {
        name: '`--flashblock-lag 1`, `X-Min-Flashblock`',
        sticking: 'nothing',
        sendsPosition: true,
      },
      { name: '`--flashblock-lag 1`, table, one killed', sticking: 'table', killsOne: true },
    ],
  ],
  [['--flashblock-lag', '2', ...shared], laggingForms('`--flashblock-lag 2`')],
]
for (const [flags, forms] of sets) {
  const replicas = await startReplicas(leader, late.url, flags)
  await pause(SETTLE_MS)
  for (const form of forms) print(form.name, await measure(form, replicas, newest))
  for (const { node } of replicas) node.child.kill('SIGKILL')
}
newest.close()
late.close()
await leader.load.stop()
await leader.node.stop()
redis.kill()
process.exit()
