/**
 * These calls end their worker, or nearly. Each must end in time with an error, and no other client
 * may notice.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Check, measurement } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { besideText, isUntouched, post, startClients } from './beside.ts'
import { ADDITIONS, DEEP, ENDLESS, HOARD, PAIR, PAIRINGS, POINTS, POWERS } from './contracts.ts'
import { chain, metric, type OverloadedNode, settled, startOverloaded } from './overloaded-node.ts'

/** The limits are shorter than the defaults, so that many calls fit into a short run. */
const CALL_MS = 2_000
const GRACE_MS = 1_000
/** One call may end two workers, while others use the rest. */
const THREADS = 4
const LIMITS = ['--limit-call-ms', String(CALL_MS), '--limit-grace-ms', String(GRACE_MS)]
/**
 * 10^12: the default gas of a plain loop is used up in 40 ms, a thousand million in one second
 * (2026-11).
 */
const MUCH_GAS = '0xe8d4a51000'

type Bad = {
  readonly name: string
  /** Fields of the call object. */
  readonly call: Readonly<Record<string, string>>
  /** The allowed error codes; 0 stands for a result. */
  readonly codes: readonly number[]
  /** The number of workers that one such call may cost. */
  readonly costs: number
}

/**
 * These calls have gas that lasts beyond the deadline, on a node that allows it. Only POWERS needs
 * no more than the default maximum.
 */
const real: readonly Bad[] = [
  {
    name: 'endless',
    call: { to: ENDLESS.address, gas: MUCH_GAS },
    codes: [-32002],
    costs: 0,
  },
  // The default gas is used up before the deadline.
  {
    name: 'endless with the default gas',
    call: { to: ENDLESS.address },
    codes: [-32000, -32002],
    costs: 0,
  },
  // The engine's memory is limited.
  {
    name: 'fills memory with transient slots',
    call: { to: HOARD.address, gas: MUCH_GAS },
    codes: [-32000, -32002],
    costs: 0,
  },
  // The call may end by itself, because each frame retains a 64th of its gas.
  {
    name: 'grows memory in every frame',
    call: { to: DEEP.address, gas: MUCH_GAS },
    codes: [0, -32000, -32002],
    costs: 0,
  },
  {
    name: 'small exponentiations with more than the default gas',
    call: { to: POWERS.address, gas: MUCH_GAS },
    codes: [-32002],
    costs: 0,
  },
  {
    name: 'small exponentiations with the default gas',
    call: { to: POWERS.address },
    codes: [-32002],
    costs: 0,
  },
  { name: 'exponentiates', call: modexp(), codes: [0, -32002], costs: 0 },
  {
    name: 'pairs',
    call: { to: PAIRINGS.address, data: PAIR, gas: MUCH_GAS },
    codes: [-32002],
    costs: 0,
  },
  {
    name: 'adds curve points',
    call: { to: ADDITIONS.address, data: POINTS, gas: MUCH_GAS },
    codes: [-32002],
    costs: 0,
  },
]

/** Makes one call of MODEXP with an exponent of 800 KB, which checks the deadline in between. */
function modexp(): Bad['call'] {
  const length = (bytes: number) => bytes.toString(16).padStart(64, '0')
  const data = `0x${length(8)}${length(800_000)}${length(8)}${'ff'.repeat(800_008)}${'ff'.repeat(7)}fd`
  return { to: `0x${'5'.padStart(40, '0')}`, data }
}

/**
 * The worker of the test build runs this code when a call's calldata names it, with a view leased.
 */
const DEEDS: Readonly<Record<string, { readonly code: string; readonly costs: number }>> = {
  dead0001: { code: 'process.exit(1)', costs: 2 },
  dead0002: {
    code: 'setImmediate(() => { throw new Error("nobody catches this") }); return new Promise(() => {})',
    costs: 2,
  },
  dead0003: {
    code: 'void Promise.reject(new Error("nor this")); return new Promise(() => {})',
    costs: 2,
  },
  dead0004: {
    code: 'for (const held = []; ; ) held.push(String(held.length).repeat(1_000))',
    costs: 2,
  },
  dead0005: { code: 'for (;;) if (process.hrtime() === undefined) break', costs: 1 },
  dead0006: { code: 'const deep = () => deep() + 1; deep()', costs: 0 },
}
const BAD_BUILD: readonly Edit[] = [
  // The heap is small, so that JavaScript exceeds it within the deadline; the engine's memory is
  // separate.
  { file: 'workers/pool/open.ts', find: 'const HEAP_MB = 512', replace: 'const HEAP_MB = 64' },
  {
    file: 'rpc/dispatch/worker-call.ts',
    find: 'const { view } = leased\n',
    replace: `const { view } = leased
      ${Object.entries(DEEDS)
        .map(([mark, { code }]) => `if (call.text.includes('0x${mark}')) { ${code} }`)
        .join('\n')}
`,
  },
  {
    // With this edit the engine never checks its deadline.
    file: 'engine/evm/fast/run.ts',
    find: 'if (running.isExpired?.() === true)',
    replace: 'if (Date.now() === 0)',
  },
]
const edited: readonly Bad[] = [
  // The engine may have more memory than the heap of this build. The worker is ended before the
  // engine reaches its own limit.
  {
    name: 'uses more memory than its heap',
    call: { to: HOARD.address, gas: MUCH_GAS },
    codes: [-32000, -32002, -32603],
    costs: 2,
  },
  {
    name: 'endless without deadline checks',
    call: { to: ENDLESS.address, gas: MUCH_GAS },
    codes: [-32002],
    costs: 1,
  },
  {
    name: 'pairings without deadline checks',
    call: { to: PAIRINGS.address, data: PAIR, gas: MUCH_GAS },
    codes: [-32002],
    costs: 1,
  },
  ...Object.entries(DEEDS).map(([mark, { costs }]) => ({
    name: mark,
    call: { to: ENDLESS.address, data: `0x${mark}`, gas: '0x5208' },
    codes: [-32002, -32603],
    costs,
  })),
]

/**
 * Makes each bad call in `rounds` rounds. Calls that end their worker run one after the other, the
 * rest also all at once.
 */
export async function overloadWorkers(
  check: Check,
  options: {
    readonly rounds: number
    readonly random: () => number
    readonly flags: readonly string[]
  },
): Promise<void> {
  const gas = ['--limit-call-gas', String(Number(MUCH_GAS))]
  const flags = [...options.flags, ...LIMITS, ...gas, '--pool-threads', String(THREADS)]
  for (const [what, bad, edits] of [
    ['calls that use all allowed resources', real, []],
    ['calls that end their worker', edited, BAD_BUILD],
  ] as const) {
    const node = await startOverloaded(flags, edits)
    const clients = startClients(node.url, options.random)
    const seen = await makeAll(node, bad, { rounds: options.rounds, isOneByOne: edits.length > 0 })
    const beside = await clients.stop()
    check(
      `${what}: each call ends with its error`,
      seen.wrong.length === 0,
      `${seen.count} calls of ${bad.length} kinds${list(seen.wrong)}`,
    )
    measurement(`slowest ${Math.round(seen.slowest)} ms, with ${CALL_MS} and ${GRACE_MS} for each`)
    check(
      `${what}: other clients are not disturbed`,
      isUntouched(beside),
      besideText(beside) + list(beside.wrong),
    )
    await checkPool(check, what, node, { bad, costs: seen.costs })
    check(`${what}: the node ends with 0`, (await node.stop()) === 0)
  }
}

type Seen = {
  count: number
  /** The number of workers that all of these calls may have cost. */
  costs: number
  slowest: number
  readonly wrong: string[]
}

async function makeAll(
  node: OverloadedNode,
  all: readonly Bad[],
  { rounds, isOneByOne }: { readonly rounds: number; readonly isOneByOne: boolean },
): Promise<Seen> {
  const seen: Seen = { count: 0, costs: 0, slowest: 0, wrong: [] }
  for (let round = 0; round < rounds; round++)
    if (isOneByOne) for (const bad of all) await makeFelt(node, bad, seen)
    else if (round % 2 === 0) for (const bad of all) await make(node, bad, seen)
    else await Promise.all(all.map((bad) => make(node, bad, seen)))
  return seen
}

/**
 * Repeats a call whose time was over before a worker started it, which happens while workers are
 * being started.
 */
async function makeFelt(node: OverloadedNode, bad: Bad, seen: Seen): Promise<void> {
  const replaced = () => metric(node, 'flashnode_pool_replaced')
  for (let time = 0; time < MAKES; time++) {
    const before = await replaced()
    await make(node, bad, seen)
    if (bad.costs === 0) return
    if ((await settled(replaced, (count) => count > before, FELT_MS)) > before) return
  }
}
const MAKES = 3
const FELT_MS = 30_000

async function make(node: OverloadedNode, bad: Bad, seen: Seen): Promise<void> {
  const startedAt = performance.now()
  const params = [{ gas: '0x2faf080', ...bad.call }, 'latest']
  const { error, result } = await post(`${node.url}/`, { method: 'eth_call', params })
  const ms = performance.now() - startedAt
  seen.count++
  // A busy machine may also end a worker that would have stopped by itself.
  seen.costs += Math.max(1, bad.costs)
  seen.slowest = Math.max(seen.slowest, ms)
  const isExpected = bad.codes.includes(error?.code ?? 0)
  if (!isExpected) seen.wrong.push(`${bad.name}: ${error?.code ?? result} ${error?.message ?? ''}`)
}

/**
 * Checks that all workers run, that the expected number was replaced, and that no old view is
 * leased.
 */
async function checkPool(
  check: Check,
  what: string,
  node: OverloadedNode,
  { bad, costs: wanted }: { readonly bad: readonly Bad[]; readonly costs: number },
): Promise<void> {
  const min = bad.filter(({ costs }) => costs > 0).length
  const replaced = await settled(
    () => metric(node, 'flashnode_pool_replaced'),
    (count) => count >= min,
  )
  // The last worker may still be starting.
  const threads = await settled(
    () => metric(node, 'flashnode_pool_threads'),
    (count) => count === THREADS,
  )
  check(
    `${what}: ended workers are replaced`,
    threads === THREADS && replaced >= min && replaced <= wanted,
    `${threads} threads, ${replaced} replaced, at most ${wanted}`,
  )
  // A leaked lease stays where it is while the snapshots of a block pass.
  await sleep(1_500)
  const age = await settled(
    () => leaseAge(node),
    (snapshots) => snapshots < MANY_SNAPSHOTS,
  )
  check(`${what}: no lease is left`, age < MANY_SNAPSHOTS, `the oldest is ${age} snapshots old`)
}
/** About two blocks have this many snapshots. */
const MANY_SNAPSHOTS = 20

export async function leaseAge(node: OverloadedNode): Promise<number> {
  const metrics = await node.metrics()
  return metrics.get(chain('view_records'))! - metrics.get(chain('view_oldest_lease'))!
}

const list = (lines: readonly string[]): string =>
  [...new Set(lines)]
    .slice(0, 8)
    .map((line) => `\n       ${line}`)
    .join('')
