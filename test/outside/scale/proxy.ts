/** HAProxy in front of two followers of a development chain: who is asked, who is not, and whose client each request is. */
import { once } from 'node:events'
import type { WebSocket } from 'ws'
import { HANGS_MS } from '../../kit/checks.ts'
import { bodyOf } from '../../kit/client.ts'
import { freePort } from '../../kit/free-port.ts'
import { call, type RunningNode, startNode } from '../../kit/node.ts'
import { readiness, startLeader, temporary, until } from '../follow/nodes.ts'
import { type Balancer, hasHaproxy, startBalancer } from './balancer.ts'
import { agent, ask, limitOf, openWebSocket, post, talk } from './client.ts'
import { dealtMany } from './dealt.ts'
import type { Checks } from './section.ts'

/** HAProxy asks from here with a header of the PROXY protocol, and from 127.0.0.1 with X-Forwarded-For. */
const NAMING = '127.0.0.2'
const DRAIN_MS = 6_000
/** JUMPDEST PUSH0 JUMP, for as long as its gas lasts. */
const LOOP = '0x5b5f56'
const BUSY = `0x${'b5'.repeat(20)}`
const loop = (gas: number) =>
  bodyOf('eth_call', [
    { to: BUSY, gas: `0x${gas.toString(16)}` },
    'latest',
    { [BUSY]: { code: LOOP } },
  ])
const SIGNATURE = '\r\n\r\n\0\r\nQUIT\n'
const SEVEN = '127.0.7.1'
const ELEVEN = '127.0.8.1'
const HEAVY = '127.0.9.1'

export type Replica = {
  readonly node: RunningNode
  readonly agentPort: number
  readonly place: string
}
type World = {
  readonly leader: RunningNode
  readonly replicas: readonly [Replica, Replica]
  readonly checks: Checks
}

export async function startReplica(
  leader: RunningNode,
  genesis: string,
  {
    feed = `${leader.url.replace('http', 'ws')}/feed`,
    flags = [],
  }: { readonly feed?: string; readonly flags?: readonly string[] } = {},
): Promise<Replica> {
  const agentPort = await freePort()
  const node = await startNode(
    [
      ...['--chain', genesis, '--datadir', temporary('replica'), '--state', 'whole'],
      ...['--upstream', `${leader.url}/`, '--feed', feed, ...flags],
      ...['--pool-threads', '2', '--rate-limit', '1000'],
      ...['--rate-limit-of', `127.0.4.0/24=off,127.0.7.0/24=7,127.0.8.0/24=11,127.0.9.0/24=off`],
      ...['--trust-proxy', '127.0.0.1/32', '--proxy-protocol', `${NAMING}/32`],
      ...['--agent-port', String(agentPort), '--drain-ms', String(DRAIN_MS)],
    ],
    'follow',
  )
  return { node, agentPort, place: new URL(node.url).host }
}
export const environment = ([one, other]: World['replicas']) => ({
  ...{ NODE1: one.place, NODE1_AGENT: String(one.agentPort) },
  ...{ NODE2: other.place, NODE2_AGENT: String(other.agentPort) },
})

export async function proxy(checks: Checks): Promise<void> {
  const { node: leader, genesis, load } = await startLeader(() => 0.5, 2)
  const replicas = [
    await startReplica(leader, genesis),
    await startReplica(leader, genesis),
  ] as const
  const world = { leader, replicas, checks }
  await refusals(world)
  await lag(world)
  if (!hasHaproxy()) checks.skip('HAProxy', 'it is not installed (Debian: apt-get install haproxy)')
  else await balanced(world)
  await load.stop()
  for (const { node } of replicas) await node.stop()
  await leader.stop()
  agent.destroy()
}

/** No proxy is between: what anybody could send. */
async function refusals({ replicas: [{ node }], checks: { check } }: World): Promise<void> {
  const port = Number(new URL(node.url).port)
  const header = `${SIGNATURE}\x21\x11\0\x0c\x7f\0\x07\x01\x7f\0\0\x01\0\x01\0\x02`
  const bytes = (text: string) => Buffer.from(text, 'latin1')
  const get = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'
  const stranger = await talk(port, bytes(header + get), ELEVEN)
  check(
    'a header of the PROXY protocol from others is no request',
    stranger.includes(' 400 '),
    stranger.slice(0, 40),
  )
  const named = await talk(port, bytes(header + get), NAMING)
  check('from its proxy it is one', named.includes(' 200 '), named.slice(0, 40))
  const old = await talk(port, bytes(`PROXY TCP4 127.0.7.1 127.0.0.1 1 2\r\n${get}`), NAMING)
  check('version 1 is refused', old === '', old.slice(0, 40))
  check('a proxy that names nobody is refused', (await talk(port, bytes(get), NAMING)) === '')
  check('and the log says it', node.output().includes('did not begin with a header of version 2'))
  const forged = await limitOf(node.url, ELEVEN, { 'x-forwarded-for': SEVEN })
  check('X-Forwarded-For from others is not believed', forged === 11, String(forged))
}

async function lag({ leader, replicas: [{ node }], checks: { check } }: World): Promise<void> {
  const codeAt = async (question: string) => (await fetch(`${node.url}/readyz${question}`)).status
  check('a node that is not late is ready', (await codeAt('?maxLagMs=5000')) === 200)
  check('a lag that is no number is refused', (await codeAt('?maxLagMs=soon')) === 400)
  await call(`${leader.url}/`, 'dev_pause')
  check(
    'one without news is not',
    await until(async () => (await codeAt('?maxLagMs=1000')) === 503, HANGS_MS),
  )
  check('for who allows less alone', (await readiness(node.url)).code === 200)
  await call(`${leader.url}/`, 'dev_resume')
  check(
    'until there are some',
    await until(async () => (await codeAt('?maxLagMs=1000')) === 200, HANGS_MS),
  )
}

async function balanced(world: World): Promise<void> {
  const folder = temporary('haproxy')
  const env = environment(world.replicas)
  const forwarding = await startBalancer(folder, env)
  const naming = await startBalancer(folder, { ...env, PROXY_PROTOCOL: '1', SOURCE: NAMING })
  const { check } = world.checks
  for (const [name, balancer] of [
    ['X-Forwarded-For', forwarding],
    ['PROXY', naming],
  ] as const)
    check(
      `${name}: both are asked`,
      await until(async () => (await upIn(balancer)) === 2, HANGS_MS),
    )
  await turns(forwarding, world)
  await beginnings(forwarding, world)
  for (const [name, balancer] of [
    ['X-Forwarded-For', forwarding],
    ['PROXY', naming],
  ] as const) {
    await clients(name, balancer, world)
    await sockets(name, balancer, world)
  }
  await stopped(forwarding, world)
  await weights(forwarding, world)
  await drained(forwarding, world)
  await forwarding.stop()
  await naming.stop()
}

const upIn = async (balancer: Balancer): Promise<number> =>
  Object.values(await balancer.stats()).filter(({ status }) => status.startsWith('UP')).length
const statsOf = async (balancer: Balancer, index: 0 | 1) =>
  (await balancer.stats())[`node${index + 1}`]!
const requestsOf = async (balancer: Balancer) =>
  [(await statsOf(balancer, 0)).requests, (await statsOf(balancer, 1)).requests] as const
const chainId = bodyOf('eth_chainId')

async function turns(balancer: Balancer, { checks: { check } }: World): Promise<void> {
  const before = await requestsOf(balancer)
  for (let host = 1; host <= 20; host++) await post(balancer.url, chainId, `127.0.3.${host}`)
  const after = await requestsOf(balancer)
  const each = after.map((count, index) => count - before[index]!)
  check(
    'twenty clients are spread',
    each.every((count) => count >= 8),
    String(each),
  )
  for (let round = 0; round < 10; round++)
    await post(`${balancer.url}/flashblocks`, chainId, '127.0.3.1')
  const own = (await requestsOf(balancer)).map((count, index) => count - after[index]!)
  check(
    'each stays where it is, on both endpoints',
    own.includes(0) && own.includes(10),
    String(own),
  )
}

/** What a client begins with comes at once over several connections, before anything of it was answered. */
async function beginnings({ url }: Balancer, { checks: { check } }: World): Promise<void> {
  const lost = await Promise.all(
    Array.from({ length: 30 }, async (_, host) => {
      const from = `127.0.5.${host + 1}`
      const made = await Promise.all(
        Array.from({ length: 4 }, () => post(url, bodyOf('eth_newBlockFilter'), from)),
      )
      const asked = made.map(({ result }) =>
        post(url, bodyOf('eth_getFilterChanges', [result]), from),
      )
      const unknown = (await Promise.all(asked)).filter(({ result }) => !Array.isArray(result))
      return unknown.length
    }),
  )
  const all = lost.filter((count) => count > 0)
  check(
    'filters that a new client makes at once are all known where it is then',
    all.length === 0,
    `${all.length} of ${lost.length} clients lost some: ${all}`,
  )
}

async function clients(name: string, { url }: Balancer, { checks: { check } }: World) {
  const [seven, eleven] = [await limitOf(url, SEVEN), await limitOf(url, ELEVEN)]
  check(`${name}: each client is itself`, seven === 7 && eleven === 11, `${seven}, ${eleven}`)
  const forged = await limitOf(url, ELEVEN, { 'x-forwarded-for': SEVEN })
  check(`${name}: whatever it says of itself`, forged === 11, String(forged))
  const greedy = await Promise.all(
    Array.from({ length: 40 }, () => post(url, chainId, '127.0.7.2')),
  )
  const refused = greedy.filter(({ status }) => status === 429).length
  const other = await post(url, chainId, '127.0.7.3')
  check(`${name}: one that asks too often is refused`, refused > 0 && refused < 40, String(refused))
  check(`${name}: another one is not`, other.status === 200, String(other.status))
}

async function sockets(name: string, { url }: Balancer, { checks: { check } }: World) {
  const socket = await openWebSocket(`${url}/flashblocks`, SEVEN)
  const said = JSON.parse(await ask(socket, bodyOf('rpc_limits'))) as {
    result?: { limit?: number }
  }
  check(`${name}: a WebSocket is its client's`, said.result?.limit === 7, JSON.stringify(said))
  socket.terminate()
  const feed = await openWebSocket(`${url}/feed`, ELEVEN)
  const [frame] = (await once(feed, 'message')) as [Buffer]
  check(`${name}: /feed comes`, frame.length > 0)
  feed.terminate()
}

async function stopped(balancer: Balancer, { replicas, checks: { check } }: World): Promise<void> {
  const [{ node }] = replicas
  node.child.kill('SIGSTOP')
  const isOut = await until(async () => (await upIn(balancer)) === 1, HANGS_MS)
  check('one that stands still is not asked any more', isOut)
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, host) => post(balancer.url, chainId, `127.0.3.${host + 1}`)),
  )
  check(
    'all of its clients are answered',
    all.every(({ status }) => status === 200),
  )
  node.child.kill('SIGCONT')
  check(
    'one that goes on is asked again',
    await until(async () => (await upIn(balancer)) === 2, HANGS_MS),
  )
}

async function weights(balancer: Balancer, { replicas, checks: { check } }: World): Promise<void> {
  const [, { node }] = replicas
  let isLoading = true
  let next = 0
  const heavy = Array.from({ length: 8 }, async () => {
    // Each another call: the same one would be run once.
    while (isLoading) await post(`${node.url}/`, loop(50_000_000 - next++), HEAVY)
  })
  const isLess = await until(async () => (await statsOf(balancer, 1)).weight <= 85, HANGS_MS)
  check(
    'one that has much to do has less weight',
    isLess,
    String((await statsOf(balancer, 1)).weight),
  )
  isLoading = false
  await Promise.all(heavy)
  const { weight: least } = await statsOf(balancer, 1)
  check(
    'and more again',
    await until(async () => (await statsOf(balancer, 1)).weight > least, HANGS_MS),
    String(least),
  )
}

/** Clients that ask one after another, until they are told to end. */
function startAsking(url: string, count: number) {
  const counts = { answered: 0, lost: [] as string[] }
  let isAsking = true
  const all = Array.from({ length: count }, async (_, host) => {
    while (isAsking)
      try {
        const { status, text } = await post(url, chainId, `127.0.4.${host + 1}`)
        if (status === 200) counts.answered++
        else counts.lost.push(`${status} ${text}`)
      } catch (error) {
        counts.lost.push((error as Error).message)
      }
  })
  return async () => {
    isAsking = false
    await Promise.all(all)
    return counts
  }
}

async function drained(balancer: Balancer, { replicas, checks: { check } }: World): Promise<void> {
  const [{ node, agentPort }] = replicas
  const open: WebSocket[] = []
  const both = { balancer, replicas: [{ name: 'node1' }, { name: 'node2' }] }
  for (const address of await dealtMany(both, 6, 8))
    open.push(await openWebSocket(`${balancer.url}/`, address))
  const codes: number[] = []
  for (const socket of open) socket.on('close', (code) => codes.push(code))
  const stop = startAsking(balancer.url, 8)
  const before = (await statsOf(balancer, 0)).requests
  await until(async () => (await statsOf(balancer, 0)).requests > before + 20, HANGS_MS)
  const ended = once(node.child, 'exit')
  const slow = post(`${node.url}/`, loop(50_000_000), HEAVY)
  node.child.kill('SIGTERM')
  const line = async () => talk(agentPort, '', '127.0.0.1').catch(() => '')
  check(
    'after SIGTERM the agent says drain',
    await until(async () => (await line()) === 'drain\n', DRAIN_MS),
  )
  const ready = await readiness(node.url)
  check(
    'and it is not ready',
    ready.code === 503 && ready.reasons[0] === 'stopping',
    String(ready.reasons),
  )
  check('what was begun is answered', (await slow).status === 200)
  const isOut = await until(async () => (await upIn(balancer)) === 1, DRAIN_MS)
  check('it is not asked any more before it goes', isOut && node.child.exitCode === null)
  const [code] = await ended
  check('it ends as it should', code === 0, String(code))
  const goodbyes = [...codes]
  check(
    'its WebSockets are told so',
    goodbyes.length > 0 && goodbyes.every((one) => one === 1001),
    String(goodbyes),
  )
  const { answered, lost } = await stop()
  check(
    'and no request was lost',
    lost.length === 0 && answered > 100,
    `${answered} answered, ${lost.length} lost: ${lost[0] ?? ''}`,
  )
  for (const socket of open) socket.terminate()
}
