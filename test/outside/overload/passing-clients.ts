/** Clients that come, ask and go, in whatever way: nothing of them is left, and nobody else notices. */
import { readdirSync, readlinkSync } from 'node:fs'
import type { Check } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { besideText, isUntouched, post, startClients } from './beside.ts'
import { POWERS } from './contracts.ts'
import {
  event,
  front,
  metric,
  type OverloadedNode,
  settled,
  startOverloaded,
} from './overloaded-node.ts'
import { KINDS, type Passing } from './passing-kinds.ts'

/** At the same time, on average: fewer than may wait for a worker. */
const TOGETHER = 60
/** Each from an address of its own, as far as they reach. */
const ADDRESSES = 1_500
/** What the limiter may remember of them. */
const KEYS = 200
const QUEUE = 100
/** For those who want more than the queue holds. */
const CROWD = 400
/** No call of those that left may run to its end or its deadline: a round would take an hour. */
const CALL_MS = 20_000
/** The least for this chain: what is used of it is resident after some seconds, and nothing comes after that. */
const VIEW_MB = 48
const FLAGS = [
  ...['--rate-limit', '1000000', '--limit-limiter-keys', String(KEYS)],
  ...['--limit-call-ms', String(CALL_MS), '--limit-call-queue', String(QUEUE)],
  ...['--view-memory', String(VIEW_MB), '--limit-result-cache-items', '100'],
]
/** Megabytes that may be added from the second round to the last, for each thousand clients: to what is in use, and to all that is resident. */
const USED_MB = 1
const RESIDENT_MB = 25

/** Says what the front's memory is once nothing superfluous is left in it. */
const COLLECTS: readonly Edit[] = [
  {
    file: 'workers/node/serving.ts',
    find: 'front: later.front?.stats(),',
    replace: `front: later.front?.stats(),
      memory: (
        process.getBuiltinModule('node:v8').setFlagsFromString('--expose-gc'),
        process.getBuiltinModule('node:vm').runInNewContext('gc')(),
        process.memoryUsage()
      ),`,
  },
]

export async function overloadByPassingClients(
  check: Check,
  options: {
    readonly rounds: number
    /** Of each round. */
    readonly clients: number
    readonly random: () => number
    readonly flags: readonly string[]
  },
): Promise<void> {
  const { rounds, clients, random } = options
  const node = await startOverloaded([...options.flags, ...FLAGS], COLLECTS)
  const threads = await metric(node, 'flashnode_pool_threads')
  const sockets = () => socketsOf(node.pid)
  const before = sockets()
  const beside = startClients(node.url, random)
  const seen = { right: 0, left: 0, wrong: [] as string[] }
  const watch = watched(node)
  const memory: Memory[] = []
  for (let round = 0; round < rounds; round++) {
    await comeAndGo(node, { clients, random, seen })
    await settled(
      () => inWork(node),
      (count) => count <= BESIDE,
    )
    memory.push(await memoryOf(node))
  }
  const others = await beside.stop()
  const most = await watch.stop()
  check(
    `${rounds * clients} clients come and go: who stays for the answer has the right one`,
    seen.wrong.length === 0 && seen.right > 0 && seen.left > 0,
    `${seen.right} answers, ${seen.left} left before ${seen.wrong.slice(0, 5).join('; ')}`,
  )
  check(
    'others are served meanwhile',
    isUntouched(others),
    `${besideText(others)} ${others.wrong.slice(0, 5).join('; ')}`,
  )
  const work = await settled(
    () => inWork(node),
    (count) => count === 0,
  )
  check('nobody works for those who left', work === 0, `${work} requests in work or waiting`)
  const left = await settled(
    async () => sockets(),
    (count) => count <= before + 2,
  )
  const webSockets = await metric(node, front('webSockets'))
  const subscriptions = await metric(node, front('subscriptions'))
  check(
    'their sockets and subscriptions are gone',
    left <= before + 2 && webSockets <= 1 && subscriptions === 0,
    `${left} sockets, ${before} before, ${most.sockets} at most; ${webSockets} WebSockets, ${subscriptions} subscriptions`,
  )
  check(
    'the limiter forgets',
    most.keys <= KEYS && most.keys > KEYS / 2,
    `${most.keys} addresses in mind at most, of ${ADDRESSES}`,
  )
  const grown = (what: keyof Memory) =>
    (memory.at(-1)![what] - memory[1]![what]) / ((rounds - 2) * (clients / 1_000))
  const shown = (what: keyof Memory) =>
    `${grown(what).toFixed(2)} MB for a thousand clients, ${memory.map((one) => Math.round(one[what])).join(', ')} MB`
  check('memory in use is flat', grown('usedMb') < USED_MB, shown('usedMb'))
  check('resident memory is flat', grown('residentMb') < RESIDENT_MB, shown('residentMb'))
  await checkQueue(check, node)
  const replaced = await metric(node, 'flashnode_pool_replaced')
  check(
    'the pool stays warm',
    replaced === 0 && (await metric(node, 'flashnode_pool_threads')) === threads,
    `${replaced} of ${threads} workers replaced`,
  )
  const mismatches = (await node.metrics()).get(event('canonical_mismatch')) ?? 0
  check('the node ends with 0', mismatches === 0 && (await node.stop()) === 0)
}

type Memory = { readonly usedMb: number; readonly residentMb: number }
async function memoryOf(node: OverloadedNode): Promise<Memory> {
  const { memory } = (await node.details()) as { memory: NodeJS.MemoryUsage }
  return { usedMb: (memory.heapUsed + memory.external) / 1e6, residentMb: memory.rss / 1e6 }
}

/** Requests of the ordinary clients, always there. */
const BESIDE = 4

async function comeAndGo(
  node: OverloadedNode,
  {
    clients,
    random,
    seen,
  }: {
    readonly clients: number
    readonly random: () => number
    readonly seen: { right: number; left: number; readonly wrong: string[] }
  },
): Promise<void> {
  let come = 0
  const one = async () => {
    while (come < clients) {
      come++
      const which = Math.floor(random() * ADDRESSES)
      const from = `127.1.${which >> 8}.${1 + ((which & 0xff) % 254)}`
      const passing: Passing = { url: node.url, from, random }
      const kind = KINDS[Math.floor(random() * KINDS.length)]!
      try {
        if ((await kind.run(passing)) === 'answered') seen.right++
        else seen.left++
      } catch (error) {
        seen.wrong.push(`${kind.name}: ${(error as Error).message}`)
      }
    }
  }
  await Promise.all(Array.from({ length: TOGETHER }, one))
}

/** More dear calls at once than may wait: the queue keeps its bound, and everybody is told something. */
async function checkQueue(check: Check, node: OverloadedNode): Promise<void> {
  const watch = watched(node)
  const told = await Promise.all(
    Array.from({ length: CROWD }, async (_, index) => {
      const gas = `0x${(100_000 + index).toString(16)}`
      const params = [{ to: POWERS.address, gas }, 'latest']
      const { error } = await post(`${node.url}/`, { method: 'eth_call', params })
      return error?.message ?? 'a result'
    }),
  )
  const count = (what: RegExp) => told.filter((message) => what.test(message)).length
  const [ended, late, refused] = [/out of gas/, /timed out/, /server busy/].map(count)
  const most = await watch.stop()
  check(
    `${CROWD} dear calls at once: ${QUEUE} wait, the rest is refused`,
    ended! + late! + refused! === CROWD && ended! > 0 && refused! > 0 && most.queued <= QUEUE,
    `${ended} to their end, ${late} timeouts, ${refused} refused, ${most.queued} waiting at most`,
  )
}

/** Looks at the metrics again and again: the most of each. */
function watched(node: OverloadedNode) {
  const most = { queued: 0, keys: 0, sockets: 0 }
  let isOver = false
  const running = (async () => {
    while (!isOver) {
      const metrics = await node.metrics()
      most.queued = Math.max(most.queued, queuedIn(metrics))
      most.keys = Math.max(most.keys, metrics.get(front('limiterKeys'))!)
      most.sockets = Math.max(most.sockets, socketsOf(node.pid))
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  return {
    async stop() {
      isOver = true
      await running
      return most
    },
  }
}

const queuedIn = (metrics: ReadonlyMap<string, number>): number =>
  ['light', 'medium', 'dear'].reduce(
    (sum, lane) => sum + metrics.get(`flashnode_pool_queued{what="${lane}"}`)!,
    0,
  )

/** Requests that are being answered, and calls that wait for a worker or have one. */
async function inWork(node: OverloadedNode): Promise<number> {
  const metrics = await node.metrics()
  const busy = metrics.get('flashnode_pool_busy')!
  return Math.max(metrics.get(front('inFlight'))!, busy + queuedIn(metrics))
}

function socketsOf(pid: number): number {
  const directory = `/proc/${pid}/fd`
  const isSocket = (fd: string) => {
    try {
      return readlinkSync(`${directory}/${fd}`).startsWith('socket:')
    } catch {
      // Closed meanwhile.
      return false
    }
  }
  return readdirSync(directory).filter(isSocket).length
}
