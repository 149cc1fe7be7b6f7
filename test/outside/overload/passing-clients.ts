/**
 * Clients come, send requests and leave in many ways. Nothing of them may remain, and no other
 * client may notice.
 */
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

/** The average number of clients at a time, which is below the queue's limit. */
const TOGETHER = 60
/** The clients use this many addresses in turn. */
const ADDRESSES = 1_500
/** The limiter may remember this many addresses. */
const KEYS = 200
const QUEUE = 100
/** This many clients exceed the queue. */
const CROWD = 400
/**
 * A call must stop when its client leaves. If it ran to its end or its deadline, a round would take
 * an hour.
 */
const CALL_MS = 20_000
/** The minimum for this chain: its used part is resident after some seconds and does not grow. */
const VIEW_MB = 48
const FLAGS = [
  ...['--rate-limit', '1000000', '--limit-limiter-keys', String(KEYS)],
  ...['--limit-call-ms', String(CALL_MS), '--limit-call-queue', String(QUEUE)],
  ...['--view-memory', String(VIEW_MB), '--limit-result-cache-items', '100'],
]
/**
 * These megabytes may be added from the second round to the last, for each thousand clients: used
 * memory, and resident memory.
 */
const USED_MB = 1
const RESIDENT_MB = 25

/** The edit reports the front's memory after a garbage collection. */
const COLLECTS: readonly Edit[] = [
  {
    file: 'workers/node/serve.ts',
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
    /** The number of clients in each round. */
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
  const max = await watch.stop()
  check(
    `${rounds * clients} clients come and go: those that wait get the right response`,
    seen.wrong.length === 0 && seen.right > 0 && seen.left > 0,
    `${seen.right} answers, ${seen.left} left before ${seen.wrong.slice(0, 5).join('; ')}`,
  )
  check(
    'other clients are served meanwhile',
    isUntouched(others),
    `${besideText(others)} ${others.wrong.slice(0, 5).join('; ')}`,
  )
  const work = await settled(
    () => inWork(node),
    (count) => count === 0,
  )
  check('no work remains for clients that left', work === 0, `${work} requests in work or waiting`)
  const left = await settled(
    async () => sockets(),
    (count) => count <= before + 2,
  )
  const webSockets = await metric(node, front('webSockets'))
  const subscriptions = await metric(node, front('subscriptions'))
  check(
    'sockets and subscriptions of these clients are gone',
    left <= before + 2 && webSockets <= 1 && subscriptions === 0,
    `${left} sockets, ${before} before, ${max.sockets} at most; ${webSockets} WebSockets, ${subscriptions} subscriptions`,
  )
  check(
    'the limiter remembers only a limited number of addresses',
    max.keys <= KEYS && max.keys > KEYS / 2,
    `${max.keys} addresses in mind at most, of ${ADDRESSES}`,
  )
  const grown = (what: keyof Memory) =>
    (memory.at(-1)![what] - memory[1]![what]) / ((rounds - 2) * (clients / 1_000))
  const textOf = (what: keyof Memory) =>
    `${grown(what).toFixed(2)} MB for a thousand clients, ${memory.map((one) => Math.round(one[what])).join(', ')} MB`
  check('memory in use is flat', grown('usedMb') < USED_MB, textOf('usedMb'))
  check('resident memory is flat', grown('residentMb') < RESIDENT_MB, textOf('residentMb'))
  await checkQueue(check, node)
  const replaced = await metric(node, 'flashnode_pool_replaced')
  check(
    'no worker of the pool was replaced',
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

/** The ordinary clients always have this many requests open. */
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

/**
 * Sends more expensive calls than may wait: the queue must respect its limit, and every client must
 * get a response.
 */
async function checkQueue(check: Check, node: OverloadedNode): Promise<void> {
  const watch = watched(node)
  const reported = await Promise.all(
    Array.from({ length: CROWD }, async (_, index) => {
      const gas = `0x${(100_000 + index).toString(16)}`
      const params = [{ to: POWERS.address, gas }, 'latest']
      const { error } = await post(`${node.url}/`, { method: 'eth_call', params })
      return error?.message ?? 'a result'
    }),
  )
  const count = (what: RegExp) => reported.filter((message) => what.test(message)).length
  const [ended, late, refused] = [/out of gas/, /timed out/, /server busy/].map(count)
  const max = await watch.stop()
  check(
    `of ${CROWD} expensive calls at once ${QUEUE} wait, and the rest are refused`,
    ended! + late! + refused! === CROWD && ended! > 0 && refused! > 0 && max.queued <= QUEUE,
    `${ended} to their end, ${late} timeouts, ${refused} refused, ${max.queued} waiting at most`,
  )
}

/** Reads the metrics repeatedly, and records the maximum of each. */
function watched(node: OverloadedNode) {
  const max = { queued: 0, keys: 0, sockets: 0 }
  let isOver = false
  const running = (async () => {
    while (!isOver) {
      const metrics = await node.metrics()
      max.queued = Math.max(max.queued, queuedIn(metrics))
      max.keys = Math.max(max.keys, metrics.get(front('limiterKeys'))!)
      max.sockets = Math.max(max.sockets, socketsOf(node.pid))
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  return {
    async stop() {
      isOver = true
      await running
      return max
    },
  }
}

const queuedIn = (metrics: ReadonlyMap<string, number>): number =>
  ['light', 'medium', 'dear'].reduce(
    (sum, queueClass) => sum + metrics.get(`flashnode_pool_queued{what="${queueClass}"}`)!,
    0,
  )

/** Counts the requests in progress, and the calls that wait for a worker or have one. */
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
      // The socket was closed meanwhile.
      return false
    }
  }
  return readdirSync(directory).filter(isSocket).length
}
