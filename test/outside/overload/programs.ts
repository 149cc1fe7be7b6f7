/**
 * Programs that try to occupy a thread run as calls of a node. Their memory must be freed, and a
 * worker that never checks its deadline must be ended.
 */
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { type Check, measurement } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { hostilePrograms } from '../programs/hostile-programs.ts'
import { besideText, isUntouched, post, startClients } from './beside.ts'
import { ENDLESS } from './contracts.ts'
import { metric, type OverloadedNode, settled, startOverloaded } from './overloaded-node.ts'

const CALL_MS = 300
/** The engine checks the deadline in time, so a worker that is ended after this time hangs. */
const GRACE_MS = 60_000
const THREADS = 2
const AT_ONCE = 2
const MUCH_GAS = '0xe8d4a51000'
const FLAGS = [
  ...['--limit-call-ms', String(CALL_MS), '--pool-threads', String(THREADS)],
  ...['--limit-call-gas', String(Number(MUCH_GAS))],
]
/**
 * The megabytes that the engines may have: a thread retains instances of 32 for the next calls, and
 * needs 8.
 */
const MAX_ENGINE_MB = THREADS * (32 + 8)
/** The process may have grown by this many megabytes. */
const MAX_PROCESS_MB = 100
const MEGABYTE = 2 ** 20
/** The engines' memory is read between the last programs, which are this many. */
const LAST = 25
/** Three of the programs take a megabyte, more than a request may have. */
const MAX_INPUT_BYTES = 900_000

/** With this edit the engine never checks its deadline. */
const NO_POLLS: readonly Edit[] = [
  {
    file: 'engine/evm/fast/run.ts',
    find: 'if (running.isExpired?.() === true)',
    replace: 'if (Date.now() === 0)',
  },
]
/** The grace time of a worker without deadline checks. */
const SHORT_GRACE_MS = 50

type Options = {
  readonly rounds: number
  readonly terminations: number
  readonly random: () => number
  readonly flags: readonly string[]
}

export async function overloadByPrograms(check: Check, options: Options): Promise<void> {
  await runAll(check, options)
  await terminate(check, options)
}

async function runAll(check: Check, { rounds, random, flags }: Options): Promise<void> {
  const limits = ['--limit-grace-ms', String(GRACE_MS)]
  const node = await startOverloaded([...flags, ...FLAGS, ...limits])
  // Code and modules that are loaded once are no leak.
  await makeAll(node, 1)
  const process = await processMb(node)
  const clients = startClients(node.url, random)
  let minMb = Number.POSITIVE_INFINITY
  const poll = async (left: number) => {
    if (left >= LAST) return
    minMb = Math.min(minMb, await engineMb(node))
  }
  const { count, wrong, slowest } = await makeAll(node, rounds, poll)
  const beside = await clients.stop()
  const ended = await metric(node, 'flashnode_pool_replaced')
  check(
    'each call ends at its deadline, and no worker is terminated',
    wrong.length === 0 && ended === 0,
    `${count} calls, ${ended} workers ${wrong.join('; ').slice(0, 400)}`,
  )
  measurement(`slowest ${Math.round(slowest)} ms, with ${CALL_MS} ms for each`)
  check(
    'other clients are not disturbed',
    isUntouched(beside),
    besideText(beside) + beside.wrong.join(),
  )
  // An instance that is not retained is freed by V8's next collection, between two calls. A leak
  // stays.
  const engines = await settled(
    async () => {
      if (minMb > MAX_ENGINE_MB) await makeAll(node, 1, poll)
      return minMb
    },
    (mb) => mb <= MAX_ENGINE_MB,
  )
  check(
    `the memory of the engines is back within ${MAX_ENGINE_MB} MB`,
    engines <= MAX_ENGINE_MB,
    `${engines.toFixed(0)} MB`,
  )
  const processAfter = await settled(
    () => processMb(node),
    (mb) => mb <= process + MAX_PROCESS_MB,
  )
  check(
    `the memory of the process is back within ${MAX_PROCESS_MB} MB`,
    processAfter <= process + MAX_PROCESS_MB,
    `${process.toFixed(0)} MB before, ${processAfter.toFixed(0)} after`,
  )
  check('the node ends with 0', (await node.stop()) === 0)
}

async function terminate(check: Check, { terminations, flags }: Options): Promise<void> {
  const limits = ['--limit-grace-ms', String(SHORT_GRACE_MS)]
  const node = await startOverloaded([...flags, ...FLAGS, ...limits], NO_POLLS)
  const replaced = () => metric(node, 'flashnode_pool_replaced')
  const codes = new Map<number, number>()
  const end = async () => {
    const { error } = await make(node, { to: ENDLESS.address })
    codes.set(error?.code ?? 0, (codes.get(error?.code ?? 0) ?? 0) + 1)
  }
  await end()
  const before = await processMb(node)
  // A call whose time was over before a worker started it ends no worker.
  while ((await replaced()) < terminations) await end()
  const after = await settled(
    () => processMb(node),
    (mb) => mb <= before + MAX_PROCESS_MB,
  )
  const ended = `${await replaced()} workers were ended in the engine's loop`
  check(
    `${ended}, and each caller got a timeout`,
    codes.size === 1 && codes.has(-32002),
    list(codes),
  )
  check(
    'the memory of the terminated workers is free again',
    after <= before + MAX_PROCESS_MB,
    `${before.toFixed(0)} MB before, ${after.toFixed(0)} after`,
  )
  const threads = await settled(
    () => metric(node, 'flashnode_pool_threads'),
    (count) => count === THREADS,
  )
  check('new workers replace the terminated ones', threads === THREADS, `${threads} threads`)
  check('the node ends with 0 after the terminations', (await node.stop()) === 0)
}

const list = (codes: ReadonlyMap<number, number>): string =>
  [...codes].map(([code, count]) => `${count} times ${code}`).join(', ')

async function makeAll(
  node: OverloadedNode,
  rounds: number,
  afterEach = async (_left: number) => {},
) {
  const seen = { count: 0, slowest: 0, wrong: [] as string[] }
  const left = Array.from({ length: rounds }, hostilePrograms)
    .flat()
    .filter(({ input }) => input === undefined || input.length < MAX_INPUT_BYTES)
  const work = async () => {
    for (let program = left.pop(); program !== undefined; program = left.pop()) {
      const { name, code, input = new Uint8Array(0) } = program
      const what = { code: bytesToHex(code), data: bytesToHex(input) }
      const { error, ms } = await make(node, what)
      seen.count++
      seen.slowest = Math.max(seen.slowest, ms)
      if (error !== undefined && error.code !== -32002 && error.code !== -32000)
        seen.wrong.push(`${name}: ${error.code} ${error.message}`)
      await afterEach(left.length)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return seen
}

const CODE_ADDRESS = `0x${'1f'.repeat(20)}`
async function make(
  { url }: OverloadedNode,
  what: { readonly to?: string; readonly code?: string; readonly data?: string },
) {
  const { to = CODE_ADDRESS, code, data } = what
  const call = { to, gas: MUCH_GAS, ...(data === undefined ? {} : { data }) }
  const overrides = code === undefined ? [] : [{ [to]: { code } }]
  const startedAt = performance.now()
  const params = [call, 'latest', ...overrides]
  const { error } = await post(`${url}/`, { method: 'eth_call', params })
  return { error, ms: performance.now() - startedAt }
}

/**
 * Sums the memory of the pool's threads outside of their heaps, mostly the memories of their
 * engines.
 */
async function engineMb(node: OverloadedNode): Promise<number> {
  let bytes = 0
  for (const [name, value] of await node.metrics())
    if (name.includes('thread="pool_') && name.includes('memory="external"')) bytes += value
  return bytes / MEGABYTE
}

async function processMb(node: OverloadedNode): Promise<number> {
  return (await metric(node, 'process_resident_memory_bytes')) / MEGABYTE
}
