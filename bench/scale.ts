/**
 * Measures the cost of several replicas. The same requests go directly to one node, and through
 * HAProxy to one, two and three. HAProxy has the operators' file, and Redis has one limit for all.
 * It prints responses a second, and for a CPU-second of nodes, HAProxy and Redis together, without
 * the load's own. The chain is slow, so that idle replicas cost little. Needs `haproxy` and
 * `redis-server`.
 * Usage: npm run bench:scale [-- --seconds 3] [--rounds 1]
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { freePort } from '../test/kit/free-port.ts'
import { startRedis } from '../test/kit/redis.ts'
import { until } from '../test/outside/follow/nodes.ts'
import { type Balancer, startBalancer } from '../test/outside/scale/balancer.ts'
import type { Loaded, LoadOptions } from './scale/load.ts'
import { cpuSecondsOf, type Server, startCommand } from './servers.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '1' },
  },
})
const seconds = Number(values.seconds)
const rounds = Number(values.rounds)
const NODES = 3
const UP_MS = 20_000
/** The slowest pace at which followers do not take the chain for halted. */
const SLOW = ['--block-time-ms', '8000', '--flashblock-time-ms', '4000']
const HOLDER = '0x70997970c51812dc3a010c7d01b50e0d17dc79c8'
const bodyOf = (method: string, params: readonly unknown[] = []) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
const ROWS = {
  eth_blockNumber: bodyOf('eth_blockNumber'),
  eth_getBalance: bodyOf('eth_getBalance', [HOLDER, 'latest']),
  // A call of IDENTITY with unique data always reaches a worker.
  'eth_call, never the same': bodyOf('eth_call', [
    { to: '0x0000000000000000000000000000000000000004', data: '0x#' },
    'latest',
  ]),
} as const
type Row = keyof typeof ROWS

type Form = {
  readonly name: string
  readonly port: number
  readonly pids: readonly number[]
  readonly balancer?: Balancer
}
type Sample = {
  readonly perSecond: number
  /** µs of all servers, of HAProxy and of Redis for a response. */
  readonly all: number
  readonly balancer: number
  readonly redis: number
}

const folder = mkdtempSync(join(tmpdir(), 'flashnode-bench-scale-'))
const dev = await startCommand(['dev', '--datadir', join(folder, 'dev'), ...SLOW])
const redisPort = await freePort()
const redis = await startRedis(redisPort)
const stops: (() => Promise<void> | void)[] = [() => dev.stop(), () => void redis.kill()]

const agents = await Promise.all(Array.from({ length: NODES }, freePort))
const portOf = ({ url }: Pick<Server, 'url'>) => Number(new URL(url).port)
async function startNode(store: string, agentPort: string): Promise<Server> {
  const source = new URL(dev.url).host
  const name = `${store === 'memory' ? 'alone' : 'replica'}-${agentPort}`
  const node = await startCommand([
    ...['follow', '--chain', join(folder, 'dev', 'genesis.json'), '--state', 'whole'],
    ...['--datadir', join(folder, name), '--upstream', `http://${source}/`],
    ...['--feed', `ws://${source}/feed`, '--trust-proxy', '127.0.0.1/32'],
    ...['--agent-port', agentPort, '--limit-store', store, '--pool-threads', '2'],
    // The limit is high but present, because only a limited client's requests are charged in Redis.
    ...['--rate-limit', '1000000', '--limit-sockets-per-client', '0'],
  ])
  stops.push(() => node.stop())
  return node
}
async function startForm(name: string, nodes: readonly Server[]): Promise<Form> {
  const nobody = String(await freePort())
  const env: Record<string, string> = { MAX_LAG_MS: '3600000' }
  for (let at = 0; at < Math.max(2, nodes.length); at++) {
    const node = nodes[at]
    env[`NODE${at + 1}`] = `127.0.0.1:${node === undefined ? nobody : portOf(node)}`
    env[`NODE${at + 1}_AGENT`] = node === undefined ? nobody : String(agents[at])
  }
  const balancer = await startBalancer(folder, env)
  stops.push(() => balancer.stop())
  const isUp = async () => {
    const stats = Object.values(await balancer.stats())
    return stats.filter(({ status }) => status.startsWith('UP')).length === nodes.length
  }
  if (!(await until(isUp, UP_MS))) throw new Error(`${name}: HAProxy does not ask all of them`)
  const pids = [...nodes.map(({ pid }) => pid), balancer.pid, redis.pid!]
  return { name, port: balancer.port, pids, balancer }
}

function run(options: LoadOptions): Promise<Loaded> {
  const child = spawn(process.execPath, ['bench/scale/load.ts', JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout.on('data', (chunk) => {
      text += chunk
    })
    child.once('exit', () => {
      if (text === '') reject(new Error('the load ended without a word'))
      else resolve(JSON.parse(text) as Loaded)
    })
  })
}

async function measure(
  { port, pids, balancer }: Form,
  row: Row,
  forSeconds: number,
): Promise<Sample> {
  const used = () => ({
    all: pids.reduce((sum, pid) => sum + cpuSecondsOf(pid), 0),
    balancer: balancer === undefined ? 0 : cpuSecondsOf(balancer.pid),
    redis: cpuSecondsOf(redis.pid!),
  })
  const before = used()
  const load = { port, path: '/flashblocks', addresses: 24, connections: 1, seconds: forSeconds }
  const { responses, faults, fault, seconds: took } = await run({ ...load, body: ROWS[row] })
  const after = used()
  if (faults > 0)
    throw new Error(`${row}: ${faults} of ${responses + faults} were no results: ${fault}`)
  const micros = (what: keyof typeof before) => ((after[what] - before[what]) * 1e6) / responses
  return {
    perSecond: responses / took,
    all: micros('all'),
    balancer: micros('balancer'),
    redis: micros('redis'),
  }
}
const mean = (all: readonly number[]) => all.reduce((a, b) => a + b, 0) / all.length
const count = (value: number) => Math.round(value).toLocaleString('en-US')

try {
  const alone = await startNode('memory', '0')
  const nodes: Server[] = []
  for (const agent of agents)
    nodes.push(await startNode(`redis://127.0.0.1:${redisPort}`, String(agent)))
  const [first] = nodes as [Server]
  const forms: Form[] = [
    { name: 'one, directly, limits in memory', port: portOf(alone), pids: [alone.pid] },
    { name: 'one, directly', port: portOf(first), pids: [first.pid, redis.pid!] },
  ]
  for (const at of [1, 2, 3]) forms.push(await startForm(`HAProxy and ${at}`, nodes.slice(0, at)))
  for (const row of Object.keys(ROWS) as Row[]) {
    console.log(`\n| ${row} | responses/s | for a CPU-second | µs, all | µs, HAProxy | µs, Redis |`)
    console.log('|---|---|---|---|---|---|')
    for (const form of forms) await measure(form, row, 1)
    const samples = forms.map((): Sample[] => [])
    for (let round = 0; round < rounds; round++)
      for (const [at, form] of forms.entries()) samples[at]!.push(await measure(form, row, seconds))
    for (const [at, { name, balancer }] of forms.entries()) {
      const of = (what: keyof Sample) => mean(samples[at]!.map((sample) => sample[what]))
      const shares = [of('all'), ...(balancer === undefined ? [] : [of('balancer')])]
      const columns = [...shares, ...(name.endsWith('memory') ? [] : [of('redis')])].map((micros) =>
        micros.toFixed(1),
      )
      if (balancer === undefined) columns.splice(1, 0, '–')
      if (name.endsWith('memory')) columns.push('–')
      console.log(
        `| ${[name, count(of('perSecond')), count(1e6 / of('all')), ...columns].join(' | ')} |`,
      )
    }
  }
} finally {
  for (const stop of stops.toReversed()) await stop()
  rmSync(folder, { recursive: true, force: true })
}
process.exit()
