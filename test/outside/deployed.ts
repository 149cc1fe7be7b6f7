/**
 * This check runs docs/operate/scale/compose.yaml without Docker: its nodes, HAProxy and Redis with
 * their flags. Loopback addresses replace those of its network, and a development chain replaces X
 * Layer. Then it checks the additional parts of the Kubernetes manifests: keys of lazy nodes, and
 * the container that shows metrics. It needs `haproxy` and `redis-server` (Debian: apt-get install
 * haproxy redis-server).
 * Usage: npm run deployed
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checks } from '../kit/checks.ts'
import { freePort } from '../kit/free-port.ts'
import { call, type RunningNode, startNode } from '../kit/node.ts'
import { mulberry32 } from '../kit/run-options.ts'
import {
  fallbackOf,
  kubernetes,
  type Service,
  compose as shipped,
} from '../operate/scale/manifests.ts'
import { readiness, startLeader, temporary, until } from './follow/nodes.ts'

const { check, skip, close } = checks('deployed')
const WAIT_MS = 600_000
const NETWORK = '127.24.0.'
/** Replaces the addresses of the file by addresses of this network. */
const local = <T>(value: T): T =>
  JSON.parse(JSON.stringify(value).replaceAll('10.24.0.', NETWORK)) as T
const services = local(shipped.services)
const addressOf = (name: string) => services[name]!.networks.nodes.ipv4_address
const urlOf = (name: string) => `http://${addressOf(name)}:${fallbackOf('port')}`

const folder = temporary('deployed')
const KEY = 'k'.repeat(32)
const KEYS = join(folder, 'api-keys.json')
writeFileSync(KEYS, JSON.stringify({ lazy: { key: KEY, rateLimit: 'off' } }))

function start(
  command: string,
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
): ChildProcess {
  const child = spawn(command, argv, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { PATH: process.env['PATH'], ...env },
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  return child
}

/**
 * Gives the flags of a service's environment and command; `own` replaces values of X Layer and of
 * containers.
 */
function flagsOf(name: string, own: Readonly<Record<string, string>>): string[] {
  const { environment = {}, command = [] } = services[name]!
  const [, ...argv] = command
  const flags = Object.entries({ ...environment, ...own }).map(
    ([key, value]) =>
      `--${key.replace('FLASHNODE_', '').toLowerCase().replaceAll('_', '-')}=${value}`,
  )
  return ['--port', String(fallbackOf('port')), ...flags, ...argv]
}

const chain = await startLeader(mulberry32(1), 5)
const adminPort = await freePort()
const nodes = new Map<string, RunningNode>()
async function startService(name: string, more: readonly string[] = []): Promise<void> {
  const host = addressOf(name)
  const own = {
    FLASHNODE_CHAIN: chain.genesis,
    FLASHNODE_DATADIR: join(folder, name),
    FLASHNODE_HOST: host,
    FLASHNODE_AGENT_HOST: host,
    FLASHNODE_SEQUENCER: `${chain.node.url}/`,
    FLASHNODE_POOL_THREADS: '2',
  }
  nodes.set(name, await startNode([...flagsOf(name, own), ...more], 'follow'))
}
const ofChain = [
  '--upstream',
  `${chain.node.url}/`,
  '--feed',
  `${chain.node.url.replace('http', 'ws')}/feed`,
]

async function proxied(): Promise<void> {
  const { environment } = services['haproxy']!
  const statsSocket = join(folder, 'stats.sock')
  const port = await freePort()
  const haproxy = start('haproxy', ['-db', '-f', 'docs/operate/scale/haproxy.cfg'], {
    ...environment,
    BIND: `${addressOf('haproxy')}:${port}`,
    SOURCE: addressOf('haproxy'),
    STATS_SOCKET: statsSocket,
  })
  const url = `http://${addressOf('haproxy')}:${port}`
  const names = [...nodes.keys()]
  const heads = () => Promise.all(names.map((name) => call(`${urlOf(name)}/`, 'eth_blockNumber')))
  const responds = async () => {
    const response = await fetch(`${url}/healthz`).catch(() => undefined)
    return response?.status === 200
  }
  check('HAProxy answers for the nodes of the Compose file', await until(responds, WAIT_MS))
  const before = Number(await call(`${url}/`, 'eth_blockNumber'))
  const moved = async () => (await heads()).every((head) => Number(head) > before + 1)
  check('all nodes of the Compose file follow the chain', await until(moved, WAIT_MS))
  haproxy.kill('SIGTERM')
  await once(haproxy, 'exit')
}

/** Checks the part of the manifests that lets Prometheus read metrics and nothing else. */
async function metrics(): Promise<void> {
  const { data } = kubernetes.find(({ metadata }) => metadata.name === 'flashnode-metrics')!
  const port = await freePort()
  const file = join(folder, 'metrics.cfg')
  const text = data['haproxy.cfg']!.replace('bind :9100', `bind 127.0.0.1:${port}`).replace(
    '127.0.0.1:8546',
    `127.0.0.1:${adminPort}`,
  )
  writeFileSync(file, text)
  const haproxy = start('haproxy', ['-db', '-f', file])
  const request = async (path: string, method = 'GET') =>
    (await fetch(`http://127.0.0.1:${port}${path}`, { method })).status
  const isThere = () =>
    request('/metrics').then(
      (status) => status === 200,
      () => false,
    )
  check('the metrics proxy serves /metrics', await until(isThere, WAIT_MS))
  const others = [await request('/'), await request('/details'), await request('/metrics', 'POST')]
  check(
    'the metrics proxy refuses every other path and method',
    others.every((status) => status === 403),
    others.join(),
  )
  const all = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  check(
    'the metrics have the time that calls wait in the queue',
    all.includes('flashnode_pool_queue_seconds_bucket{'),
  )
  haproxy.kill('SIGTERM')
  await once(haproxy, 'exit')
}

async function stops(): Promise<void> {
  for (const [name, node] of [...nodes].toReversed()) {
    const graceMs = Number.parseInt((services[name] as Service).stop_grace_period, 10) * 1_000
    const from = performance.now()
    const code = await node.stop()
    const ms = Math.round(performance.now() - from)
    check(
      `${name} ends with 0 within its stop grace period`,
      code === 0 && ms < graceMs,
      `${code}, ${ms} ms`,
    )
  }
}

async function run(): Promise<void> {
  const { command = [] } = services['redis']!
  start('redis-server', [...command.slice(1), '--bind', addressOf('redis'), '--dir', folder])
  await startService('replica-1', [...ofChain, '--admin-port', String(adminPort)])
  await startService('replica-2', [...ofChain, '--api-keys', KEYS])
  // Loopback nodes share one address, so they request with a key, as in the manifests.
  const upstream = ['--upstream', `${urlOf('replica-2')}/${KEY}`]
  for (const name of ['lazy-1', 'lazy-2']) await startService(name, upstream)
  const modes = await Promise.all(
    [...nodes.keys()].map(async (name) => (await readiness(urlOf(name)))['mode']),
  )
  const expected = 'whole,whole,proven,proven'
  check(
    'replicas have full state, and lazy nodes have fetched and proven state',
    modes.join() === expected,
    modes.join(),
  )
  await proxied()
  await metrics()
  await stops()
}

const isThere = (program: string) => spawnSync(program, ['-v']).error === undefined
const missing = ['haproxy', 'redis-server'].filter((program) => !isThere(program))
if (missing.length > 0) skip('the Compose file', `not installed: ${missing.join(', ')}`)
else
  try {
    await run()
  } catch (error) {
    check('the Compose file', false, (error as Error).stack)
  }
await chain.load.stop()
close()
process.exit()
