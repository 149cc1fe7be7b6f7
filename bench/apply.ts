/**
 * What a replica costs that executes, that applies a leader's feed with 5 % executed besides, and that applies alone: processor time of its whole
 * process for a second of the same load, in turns, each new from the genesis; and how much later than the leader it shows a flashblock.
 * Usage: npm run bench:apply -- [--rate 40, transactions a second] [--seconds 15] [--rounds 2]
 */
import { parseArgs } from 'node:util'
import { WebSocket } from 'ws'
import {
  headOf,
  startFollower,
  startLeader,
  temporary,
  until,
} from '../test/outside/follow/nodes.ts'
import { freePort } from '../test/outside/free-port.ts'
import type { RunningNode } from '../test/outside/node-process.ts'
import { mulberry32 } from '../test/outside/run-options.ts'
import { cpuSecondsOf } from './servers.ts'

const { values } = parseArgs({
  options: {
    rate: { type: 'string', default: '40' },
    seconds: { type: 'string', default: '15' },
    rounds: { type: 'string', default: '2' },
  },
})
const KINDS = {
  executes: [],
  'applies, 5 % besides': ['--verify-share', '0.05'],
  applies: ['--verify-share', '0'],
} as const
type Kind = keyof typeof KINDS
/** Caches fill, and code is compiled. */
const WARM_MS = 6_000
const CAUGHT_UP_MS = 60_000
const COUNTED = /^flashnode_chain_events_total\{event="flashblock_(applied|executed)"\} (\d+)/gm

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const chain = await startLeader(mulberry32(1), Number(values.rate))
const feeds = [`${chain.node.url.replace('http', 'ws')}/feed`]
const upstreams = [`${chain.node.url}/`]
const follow = (more: readonly string[]): Promise<RunningNode> =>
  startFollower(chain, {
    ...{ datadir: temporary('bench'), upstreams, feeds },
    more: ['--state', 'whole', '--verify-sample', '0', ...more],
  })
const leader = await follow([])
const apply = ['--apply', `${leader.url.replace('http', 'ws')}/feed`]

type Sample = {
  readonly cpuMs: number
  readonly lagMs: readonly number[]
  /** Of the flashblocks. */
  readonly applied: number
}

async function measure(kind: Kind): Promise<Sample> {
  const adminPort = await freePort()
  const own = kind === 'executes' ? [] : apply
  const node = await follow(['--admin-port', String(adminPort), ...own, ...KINDS[kind]])
  const isLevel = async () => (await headOf(node.url)) >= (await headOf(chain.node.url)) - 1
  if (!(await until(isLevel, CAUGHT_UP_MS))) throw new Error(`${kind}: does not follow`)
  await pause(WARM_MS)
  const before = await counts(adminPort)
  const seen = [watch(leader.url), watch(node.url)] as const
  const [cpu, started] = [cpuSecondsOf(node.pid), performance.now()]
  await pause(Number(values.seconds) * 1_000)
  const seconds = (performance.now() - started) / 1_000
  const cpuMs = ((cpuSecondsOf(node.pid) - cpu) * 1_000) / seconds
  const after = await counts(adminPort)
  const [first, second] = seen.map((one) => one.stop())
  await node.stop()
  const lagMs = [...first!].flatMap(([place, at]) => {
    const later = second!.get(place)
    return later === undefined ? [] : [later - at]
  })
  const [applied, executed] = [after.applied - before.applied, after.executed - before.executed]
  return { cpuMs, lagMs, applied: applied / (applied + executed) }
}

async function counts(adminPort: number): Promise<{ applied: number; executed: number }> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  const found = { applied: 0, executed: 0 }
  for (const [, what, sum] of text.matchAll(COUNTED))
    found[what as keyof typeof found] = Number(sum)
  return found
}

/** When each flashblock was told to a subscriber, by its place. Nodes are looked at by one process: by one clock. */
function watch(url: string): { stop(): ReadonlyMap<string, number> } {
  const at = new Map<string, number>()
  const socket = new WebSocket(`${url.replace('http', 'ws')}/flashblocks`)
  const params = ['newFlashblockTransactions', false]
  socket.on('open', () =>
    socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params })),
  )
  socket.on('message', (data: Buffer) => {
    const { params: told } = JSON.parse(data.toString()) as { params?: { result?: unknown } }
    const name = JSON.stringify(told?.result)
    if (told !== undefined && !at.has(name)) at.set(name, performance.now())
  })
  return {
    stop() {
      socket.terminate()
      return at
    },
  }
}

const samples = new Map<Kind, Sample[]>()
for (let round = 0; round < Number(values.rounds); round++)
  for (const kind of Object.keys(KINDS) as Kind[]) {
    const sample = await measure(kind)
    samples.set(kind, [...(samples.get(kind) ?? []), sample])
    console.log(`round ${round}: ${kind}: ${sample.cpuMs.toFixed(0)} ms of processor a second`)
  }
await chain.load.stop()
await leader.stop()
await chain.node.stop()

const mean = (list: readonly number[]) => list.reduce((sum, one) => sum + one, 0) / list.length
const percentile = (list: readonly number[], share: number) =>
  list.toSorted((a, b) => a - b)[Math.floor(list.length * share)] ?? Number.NaN
const executing = mean(samples.get('executes')!.map(({ cpuMs }) => cpuMs))
console.log('\n| a replica that | ms/s | of executing | applied | behind the leader, p50, p99 ms |')
console.log('|---|---|---|---|---|')
for (const [kind, of] of samples) {
  const cpuMs = mean(of.map((one) => one.cpuMs))
  const lag = of.flatMap(({ lagMs }) => lagMs)
  const applied =
    kind === 'executes' ? '' : `${(mean(of.map((one) => one.applied)) * 100).toFixed(0)} %`
  console.log(
    `| ${kind} | ${cpuMs.toFixed(0)} | ${(cpuMs / executing).toFixed(2)} | ${applied} | ${percentile(lag, 0.5).toFixed(1)}, ${percentile(lag, 0.99).toFixed(1)} |`,
  )
}
process.exit()
