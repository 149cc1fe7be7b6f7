/**
 * What a replica costs that executes, that applies a leader's feed with 5 % executed besides, and that applies alone: processor time of its whole
 * process and of each thread for a transaction, and how much later than the leader it shows a flashblock. At the highest rate at which chain, leader,
 * replica, this process and whatever else runs leave half a core idle, or that is given. One after the other, each from the genesis on, and nothing
 * is sent until it has caught up: that says how late each is. With --together all three follow at once: that says what each takes, of the same
 * flashblocks and in the same moment, where a machine that fills makes each run slower than the one before.
 * Usage: npm run bench:apply -- [--together] [--rate 400, transactions a second] [--warm 20] [--seconds 12] [--only transfers]
 */
import { rmSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { WebSocket } from 'ws'
import type { Hex } from '../engine/primitives/bytes.ts'
import { freePort } from '../test/kit/free-port.ts'
import { callMany, type RunningNode, startNode } from '../test/kit/node.ts'
import { headOf, startFollower, temporary, until } from '../test/outside/follow/nodes.ts'
import { since, sumOf, threadTimes } from './threads.ts'
import { multicall, swap } from './workloads/calldata.ts'
import { crowdAlloc, signOfCrowd } from './workloads/crowd.ts'
import { writeGenesis } from './workloads/genesis.ts'
import type { Draft } from './workloads/signed.ts'
import { holder, MULTICALL, ROUTER, TEN_18 } from './workloads/world.ts'

const { values } = parseArgs({
  options: {
    rate: { type: 'string' },
    warm: { type: 'string', default: '20' },
    seconds: { type: 'string', default: '12' },
    only: { type: 'string', default: '' },
    together: { type: 'boolean', default: false },
  },
})
const FORMS = {
  executes: [],
  'applies, 5 % besides': ['--verify-share', '0.05'],
  applies: ['--verify-share', '0'],
} as const
type Form = keyof typeof FORMS
const LOADS: Readonly<Record<string, (n: number) => Draft>> = {
  transfers: (n) => ({ to: holder(n % 1_000), value: 1n, gasLimit: 21_000n, data: '0x' }),
  'swaps over 3 hops': (n) => ({
    ...{ to: MULTICALL, value: 0n, gasLimit: 400_000n },
    data: multicall([{ to: ROUTER, data: swap(TEN_18 + BigInt(n), MULTICALL) }]),
  }),
}
/** Cores. */
const IDLE = 0.5
/** Caches fill, and code is compiled: in the first ten seconds V8's threads take as much as the writer. */
const WARM_MS = Number(values.warm) * 1_000
/** Before rates are tried. */
const SETTLE_MS = 6_000
const PROBE_MS = 3_000
/** Transactions a second, tried from the first on. */
const RATES = [100, 150, 200, 250, 300, 350, 400, 500, 600, 800, 1_000, 1_200] as const
const EVERY_MS = 100
const IN_BATCH = 50
const CAUGHT_UP_MS = 60_000
const COUNTED =
  /^flashnode_chain_events_total\{event="(flashblock_applied|flashblock_executed|sender_told)"\} (\d+)/gm
/** By their names; the rest is one. */
const THREADS = ['writer', 'keeper', 'MainThread', 'follower', 'feed_0', 'leaders', 'V8Worker']

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

class Load {
  /** Transactions a second. */
  rate = 0
  sent = 0
  #isOver = false
  readonly #running: Promise<void>

  constructor(url: string, draft: (n: number) => Draft) {
    this.#running = this.#run(url, draft)
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#running
  }

  async #run(url: string, draft: (n: number) => Draft): Promise<void> {
    for (let dueMs = performance.now(); !this.#isOver; dueMs += EVERY_MS) {
      const raws: [Hex][] = []
      for (let left = Math.round((this.rate * EVERY_MS) / 1_000); left > 0; left--)
        raws.push([signOfCrowd(draft(this.sent), this.sent++)])
      for (let at = 0; at < raws.length; at += IN_BATCH)
        await callMany(url, 'eth_sendRawTransaction', raws.slice(at, at + IN_BATCH))
      await pause(Math.max(0, dueMs + EVERY_MS - performance.now()))
    }
  }
}

type Stage = {
  readonly load: Load
  readonly chain: RunningNode
  readonly leader: RunningNode
  follow(more: readonly string[]): Promise<RunningNode>
}

async function openStage(draft: (n: number) => Draft): Promise<Stage> {
  const files = writeGenesis({ flashnode: 1_000, anvil: 0 }, crowdAlloc())
  const datadir = temporary('dev')
  const own = ['--genesis-alloc', files.allocFile, '--gas-limit', '1000000000']
  const both = ['--datadir', datadir, '--rate-limit', 'off', '--pool-threads', '2']
  const chain = await startNode([...both, ...own])
  for (const file of Object.values(files)) rmSync(file)
  const load = new Load(`${chain.url}/`, draft)
  const followed = { node: chain, load: undefined as never, genesis: join(datadir, 'genesis.json') }
  const about = { upstreams: [`${chain.url}/`], feeds: [`${chain.url.replace('http', 'ws')}/feed`] }
  const follow = (more: readonly string[]) =>
    startFollower(followed, {
      ...{ ...about, datadir: temporary('bench') },
      more: ['--state', 'whole', '--verify-sample', '0', ...more],
    })
  return { load, chain, follow, leader: await follow([]) }
}

/** Milliseconds of all cores since the machine has started, whoever had them. */
const spentByAll = (): number =>
  cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0)

/** Begins to count; cores that nobody had since. */
function idleSince(): () => number {
  const [spent, startedMs] = [spentByAll(), performance.now()]
  return () => cpus().length - (spentByAll() - spent) / (performance.now() - startedMs)
}

async function findRate(load: Load): Promise<number> {
  let found: number = RATES[0]
  load.rate = found
  await pause(SETTLE_MS)
  for (const rate of RATES) {
    load.rate = rate
    await pause(PROBE_MS)
    const idle = idleSince()
    await pause(PROBE_MS)
    if (idle() < IDLE) break
    found = rate
  }
  return found
}

type Sample = {
  readonly transactions: number
  /** Cores. */
  readonly idle: number
  /** Milliseconds. */
  readonly times: ReadonlyMap<string, number>
  readonly lagMs: readonly number[]
  readonly counts: Readonly<Record<string, number>>
}

async function measure(
  { load, leader }: Stage,
  { node, adminPort }: { readonly node: RunningNode; readonly adminPort: number },
): Promise<Sample> {
  const before = await countsOf(adminPort)
  const seen = [watch(leader.url), watch(node.url)] as const
  const [times, sent, idle] = [threadTimes(node.pid), load.sent, idleSince()]
  await pause(Number(values.seconds) * 1_000)
  const left = idle()
  const [first, second] = seen.map((one) => one.stop())
  const lagMs = [...first!].flatMap(([place, at]) => {
    const later = second!.get(place)
    return later === undefined ? [] : [later - at]
  })
  const after = await countsOf(adminPort)
  const counts = Object.fromEntries(
    Object.entries(after).map(([name, sum]) => [name, sum - (before[name] ?? 0)]),
  )
  const spent = since(threadTimes(node.pid), times)
  return { transactions: load.sent - sent, idle: left, times: spent, lagMs, counts }
}

async function countsOf(adminPort: number): Promise<Record<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  return Object.fromEntries([...text.matchAll(COUNTED)].map(([, name, sum]) => [name, Number(sum)]))
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

type Replica = { readonly form: Form; readonly node: RunningNode; readonly adminPort: number }

async function startReplica(stage: Stage, form: Form): Promise<Replica> {
  const { chain, leader } = stage
  const adminPort = await freePort()
  const applies = ['--apply', `${leader.url.replace('http', 'ws')}/feed`]
  const own = form === 'executes' ? [] : applies
  const node = await stage.follow(['--admin-port', String(adminPort), ...own, ...FORMS[form]])
  const isLevel = async () => (await headOf(node.url)) >= (await headOf(chain.url)) - 1
  if (!(await until(isLevel, CAUGHT_UP_MS))) throw new Error(`${form}: does not follow`)
  return { form, node, adminPort }
}

async function run(name: string, draft: (n: number) => Draft): Promise<void> {
  const stage = await openStage(draft)
  const { load, chain, leader } = stage
  const samples = new Map<Form, Sample>()
  let rate = values.rate === undefined ? undefined : Number(values.rate)
  const forms = Object.keys(FORMS) as Form[]
  for (const atOnce of values.together ? [forms] : forms.map((form) => [form])) {
    const replicas: Replica[] = []
    for (const form of atOnce) replicas.push(await startReplica(stage, form))
    rate ??= await findRate(load)
    load.rate = rate
    console.error(`${name}: ${atOnce.join('; ')}, ${rate} a second`)
    await pause(WARM_MS)
    await Promise.all(replicas.map(async (one) => samples.set(one.form, await measure(stage, one))))
    load.rate = 0
    for (const { node } of replicas) await node.stop()
  }
  await load.stop()
  for (const node of [leader, chain]) await node.stop()
  print(name, rate!, samples)
}

function print(name: string, rate: number, samples: ReadonlyMap<Form, Sample>): void {
  const perTransaction = ({ transactions }: Sample, ms: number) => (ms * 1_000) / transactions
  const executing = perTransaction(samples.get('executes')!, sumOf(samples.get('executes')!.times))
  console.log(
    `\n${name}, ${rate} a second, load average ${loadavg()[0]!.toFixed(1)}; µs a transaction\n`,
  )
  console.log(
    `| a replica that | all | of executing | ${THREADS.join(' | ')} | others | applied | senders told | behind the leader, p50, p99 ms | cores idle |`,
  )
  console.log(`|---|${'---|'.repeat(THREADS.length + 7)}`)
  for (const form of Object.keys(FORMS) as Form[]) {
    const sample = samples.get(form)!
    const { times, counts, lagMs, transactions, idle } = sample
    const all = perTransaction(sample, sumOf(times))
    const own = THREADS.map((thread) => perTransaction(sample, times.get(thread) ?? 0))
    const others = all - own.reduce((sum, us) => sum + us, 0)
    const applied = counts['flashblock_applied'] ?? 0
    const taken = applied + (counts['flashblock_executed'] ?? 0)
    const cells = [
      all.toFixed(0),
      (all / executing).toFixed(2),
      ...[...own, others].map((us) => us.toFixed(0)),
      percent(applied / taken),
      percent((counts['sender_told'] ?? 0) / transactions),
      `${percentile(lagMs, 0.5)}, ${percentile(lagMs, 0.99)}`,
      idle.toFixed(2),
    ]
    console.log(`| ${form} | ${cells.join(' | ')} |`)
  }
}

const percent = (share: number) => `${(share * 100).toFixed(0)} %`
const percentile = (list: readonly number[], share: number) =>
  (list.toSorted((a, b) => a - b)[Math.floor(list.length * share)] ?? Number.NaN).toFixed(1)

for (const [name, draft] of Object.entries(LOADS))
  if (name.includes(values.only)) await run(name, draft)
process.exit()
