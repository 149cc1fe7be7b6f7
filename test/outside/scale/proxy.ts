/**
 * HAProxy runs before two followers of a development chain. The checks prove which node gets
 * requests, and to which client each request belongs.
 */
import { once } from 'node:events'
import type { WebSocket } from 'ws'
import { HANGS_MS } from '../../kit/checks.ts'
import { bodyOf } from '../../kit/client.ts'
import { freePort } from '../../kit/free-port.ts'
import { call, type RunningNode, startNode } from '../../kit/node.ts'
import { readiness, startLeader, temporary, until } from '../follow/nodes.ts'
import { type Balancer, hasHaproxy, type ServerStats, startBalancer } from './balancer.ts'
import { agent, limitOf, openWebSocket, post, request, talk } from './client.ts'
import { dealtMany } from './dealt.ts'
import type { Checks } from './section.ts'

/**
 * HAProxy connects from this address with a header of the PROXY protocol, and from 127.0.0.1 with
 * X-Forwarded-For.
 */
const NAMING = '127.0.0.2'
const DRAIN_MS = 6_000
/** JUMPDEST PUSH0 JUMP loops until its gas is used up. */
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
  readonly address: string
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
  return { node, agentPort, address: new URL(node.url).host }
}
export const environment = ([one, other]: World['replicas']) => ({
  NODE1: one.address,
  NODE1_AGENT: String(one.agentPort),
  NODE2: other.address,
  NODE2_AGENT: String(other.agentPort),
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

/** Checks headers that anybody could send without a proxy. */
async function refusals({ replicas: [{ node }], checks: { check } }: World): Promise<void> {
  const port = Number(new URL(node.url).port)
  const header = `${SIGNATURE}\x21\x11\0\x0c\x7f\0\x07\x01\x7f\0\0\x01\0\x01\0\x02`
  const bytes = (text: string) => Buffer.from(text, 'latin1')
  const get = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'
  const stranger = await talk(port, bytes(header + get), ELEVEN)
  check(
    'a PROXY header from an untrusted address gets 400',
    stranger.includes(' 400 '),
    stranger.slice(0, 40),
  )
  const named = await talk(port, bytes(header + get), NAMING)
  check(
    'a PROXY header from the trusted proxy is accepted',
    named.includes(' 200 '),
    named.slice(0, 40),
  )
  const old = await talk(port, bytes(`PROXY TCP4 127.0.7.1 127.0.0.1 1 2\r\n${get}`), NAMING)
  check('a PROXY header of version 1 is refused', old === '', old.slice(0, 40))
  check(
    'a trusted proxy without a PROXY header is refused',
    (await talk(port, bytes(get), NAMING)) === '',
  )
  check(
    'the log reports the missing PROXY header',
    node.output().includes('sent no PROXY header of version 2'),
  )
  const forged = await limitOf(node.url, ELEVEN, { 'x-forwarded-for': SEVEN })
  check('X-Forwarded-For from an untrusted address is ignored', forged === 11, String(forged))
}

async function lag({ leader, replicas: [{ node }], checks: { check } }: World): Promise<void> {
  const codeAt = async (question: string) => (await fetch(`${node.url}/readyz${question}`)).status
  check('a node within maxLagMs is ready', (await codeAt('?maxLagMs=5000')) === 200)
  check('a maxLagMs that is no number gets 400', (await codeAt('?maxLagMs=soon')) === 400)
  await call(`${leader.url}/`, 'dev_pause')
  check(
    'a node without new blocks is not ready for its maxLagMs',
    await until(async () => (await codeAt('?maxLagMs=1000')) === 503, HANGS_MS),
  )
  check('the same node is ready without maxLagMs', (await readiness(node.url)).code === 200)
  await call(`${leader.url}/`, 'dev_resume')
  check(
    'the node is ready again with new blocks',
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
      `${name}: HAProxy uses both replicas`,
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

/**
 * Measures while HAProxy uses both replicas alike. On a busy machine a replica lags, and its
 * clients rightly go to the other one: then the measurement is repeated.
 */
async function undisturbed<Measured>(
  balancer: Balancer,
  measure: () => Promise<Measured>,
): Promise<Measured> {
  let measured: Measured | undefined
  await until(async () => {
    const before = await evenUse(balancer)
    await balancer.forget()
    measured = await measure()
    return useOf(await balancer.stats()) === before
  }, HANGS_MS)
  return measured!
}

/** Waits until HAProxy uses both replicas alike, and describes the use. */
async function evenUse(balancer: Balancer): Promise<string> {
  let stats: Awaited<ReturnType<Balancer['stats']>> = {}
  await until(async () => {
    stats = await balancer.stats()
    const servers = Object.values(stats)
    return servers.every(({ status, weight }) => status === 'UP' && weight === servers[0]!.weight)
  }, HANGS_MS)
  return useOf(stats)
}
const useOf = (stats: Readonly<Record<string, ServerStats>>): string =>
  Object.values(stats)
    .map(({ status, weight, downs }) => `${status} ${weight} ${downs}`)
    .join()

async function turns(balancer: Balancer, { checks: { check } }: World): Promise<void> {
  const { each, own } = await undisturbed(balancer, async () => {
    const before = await requestsOf(balancer)
    for (let host = 1; host <= 20; host++) await post(balancer.url, chainId, `127.0.3.${host}`)
    const after = await requestsOf(balancer)
    for (let round = 0; round < 10; round++)
      await post(`${balancer.url}/flashblocks`, chainId, '127.0.3.1')
    const end = await requestsOf(balancer)
    return {
      each: after.map((count, index) => count - before[index]!),
      own: end.map((count, index) => count - after[index]!),
    }
  })
  check(
    'HAProxy spreads twenty clients over both replicas',
    each.every((count) => count >= 8),
    String(each),
  )
  check(
    'a client stays at its replica on both endpoints',
    own.includes(0) && own.includes(10),
    String(own),
  )
}

/** Checks that a new client's first requests, over several connections at once, are all served. */
async function beginnings(balancer: Balancer, { checks: { check } }: World): Promise<void> {
  const { url } = balancer
  const lost = await undisturbed(balancer, () =>
    Promise.all(
      Array.from({ length: 30 }, async (_, host) => {
        const from = `127.0.5.${host + 1}`
        const made = await Promise.all(
          Array.from({ length: 4 }, () => post(url, bodyOf('eth_newBlockFilter'), from)),
        )
        const requested = made.map(({ result }) =>
          post(url, bodyOf('eth_getFilterChanges', [result]), from),
        )
        const responses = await Promise.all(requested)
        return responses.filter(({ result }) => !Array.isArray(result)).length
      }),
    ),
  )
  const all = lost.filter((count) => count > 0)
  check(
    'filters that a new client creates at once are all known at its replica',
    all.length === 0,
    `${all.length} of ${lost.length} clients lost some: ${all}`,
  )
}

async function clients(name: string, { url }: Balancer, { checks: { check } }: World) {
  const [seven, eleven] = [await limitOf(url, SEVEN), await limitOf(url, ELEVEN)]
  check(
    `${name}: each client has its own limit`,
    seven === 7 && eleven === 11,
    `${seven}, ${eleven}`,
  )
  const forged = await limitOf(url, ELEVEN, { 'x-forwarded-for': SEVEN })
  check(`${name}: a forged header does not change the client`, forged === 11, String(forged))
  const greedy = await Promise.all(
    Array.from({ length: 40 }, () => post(url, chainId, '127.0.7.2')),
  )
  const refused = greedy.filter(({ status }) => status === 429).length
  const other = await post(url, chainId, '127.0.7.3')
  check(
    `${name}: a client beyond its limit is refused`,
    refused > 0 && refused < 40,
    String(refused),
  )
  check(`${name}: another client is served meanwhile`, other.status === 200, String(other.status))
}

async function sockets(name: string, { url }: Balancer, { checks: { check } }: World) {
  const socket = await openWebSocket(`${url}/flashblocks`, SEVEN)
  const said = JSON.parse(await request(socket, bodyOf('rpc_limits'))) as {
    result?: { limit?: number }
  }
  check(
    `${name}: a WebSocket counts for its client`,
    said.result?.limit === 7,
    JSON.stringify(said),
  )
  socket.terminate()
  const feed = await openWebSocket(`${url}/feed`, ELEVEN)
  const [frame] = (await once(feed, 'message')) as [Buffer]
  check(`${name}: frames of /feed arrive`, frame.length > 0)
  feed.terminate()
}

async function stopped(balancer: Balancer, { replicas, checks: { check } }: World): Promise<void> {
  const [{ node }] = replicas
  node.child.kill('SIGSTOP')
  const isOut = await until(async () => (await upIn(balancer)) === 1, HANGS_MS)
  check('HAProxy stops using a hung replica', isOut)
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, host) => post(balancer.url, chainId, `127.0.3.${host + 1}`)),
  )
  check(
    'clients of the hung replica get responses',
    all.every(({ status }) => status === 200),
  )
  node.child.kill('SIGCONT')
  check(
    'HAProxy uses a resumed replica again',
    await until(async () => (await upIn(balancer)) === 2, HANGS_MS),
  )
}

async function weights(balancer: Balancer, { replicas, checks: { check } }: World): Promise<void> {
  const [, { node }] = replicas
  let isLoading = true
  let next = 0
  const heavy = Array.from({ length: 8 }, async () => {
    // Each call is different, because equal calls would run only once.
    while (isLoading) await post(`${node.url}/`, loop(50_000_000 - next++), HEAVY)
  })
  const isLess = await until(async () => (await statsOf(balancer, 1)).weight <= 85, HANGS_MS)
  check('a busy replica gets less weight', isLess, String((await statsOf(balancer, 1)).weight))
  isLoading = false
  await Promise.all(heavy)
  const { weight: min } = await statsOf(balancer, 1)
  check(
    'its weight grows again after the load',
    await until(async () => (await statsOf(balancer, 1)).weight > min, HANGS_MS),
    String(min),
  )
}

/** Starts clients that send one request after another until they are stopped. */
function startRequesting(url: string, count: number) {
  const counts = { responded: 0, lost: [] as string[] }
  let isRequesting = true
  const all = Array.from({ length: count }, async (_, host) => {
    while (isRequesting)
      try {
        const { status, text } = await post(url, chainId, `127.0.4.${host + 1}`)
        if (status === 200) counts.responded++
        else counts.lost.push(`${status} ${text}`)
      } catch (error) {
        counts.lost.push((error as Error).message)
      }
  })
  return async () => {
    isRequesting = false
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
  const stop = startRequesting(balancer.url, 8)
  const before = (await statsOf(balancer, 0)).requests
  await until(async () => (await statsOf(balancer, 0)).requests > before + 20, HANGS_MS)
  const ended = once(node.child, 'exit')
  const slow = post(`${node.url}/`, loop(50_000_000), HEAVY)
  node.child.kill('SIGTERM')
  const line = async () => talk(agentPort, '', '127.0.0.1').catch(() => '')
  check(
    'after SIGTERM the agent answers drain',
    await until(async () => (await line()) === 'drain\n', DRAIN_MS),
  )
  const ready = await readiness(node.url)
  check(
    'after SIGTERM the node is not ready',
    ready.code === 503 && ready.reasons[0] === 'stopping',
    String(ready.reasons),
  )
  check('a started request gets its response', (await slow).status === 200)
  const isOut = await until(async () => (await upIn(balancer)) === 1, DRAIN_MS)
  check('HAProxy stops using the node before the node ends', isOut && node.child.exitCode === null)
  const [code] = await ended
  check('the node ends with 0', code === 0, String(code))
  const goodbyes = [...codes]
  check(
    'its WebSockets close with 1001',
    goodbyes.length > 0 && goodbyes.every((one) => one === 1001),
    String(goodbyes),
  )
  const { responded, lost } = await stop()
  check(
    'no request was lost',
    lost.length === 0 && responded > 100,
    `${responded} answered, ${lost.length} lost: ${lost[0] ?? ''}`,
  )
  for (const socket of open) socket.terminate()
}
