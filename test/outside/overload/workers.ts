/** Calls that their worker does not survive, or hardly: each ends in time with an error, and nobody else notices. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Check, figure } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { besideText, isUntouched, post, startClients } from './beside.ts'
import { ADDITIONS, DEEP, ENDLESS, HOARD, PAIR, PAIRINGS, POINTS, POWERS } from './contracts.ts'
import { chain, metric, type OverloadedNode, settled, startOverloaded } from './overloaded-node.ts'

/** Shorter than the defaults, so that many fit into a short run. */
const CALL_MS = 2_000
const GRACE_MS = 1_000
/** One call may end two of them; others go on with the rest. */
const THREADS = 4
const LIMITS = ['--limit-call-ms', String(CALL_MS), '--limit-grace-ms', String(GRACE_MS)]
/** 10^12: the default gas of a plain loop is burnt in 40 ms, a thousand million in one second (2026-11). */
const MUCH_GAS = '0xe8d4a51000'

type Bad = {
  readonly name: string
  /** Of the call object. */
  readonly call: Readonly<Record<string, string>>
  /** Of the error; 0: a result. */
  readonly codes: readonly number[]
  /** Workers that one such call may cost. */
  readonly costs: number
}

/** As much gas as lasts beyond the deadline, on a node that allows it: more than any caller may ask for by default, but for POWERS. */
const real: readonly Bad[] = [
  {
    name: 'endless',
    call: { to: ENDLESS.address, gas: MUCH_GAS },
    codes: [-32002],
    costs: 0,
  },
  // The default is burnt before the deadline.
  {
    name: 'endless by the default gas',
    call: { to: ENDLESS.address },
    codes: [-32000, -32002],
    costs: 0,
  },
  // The engine's memory has a bound.
  {
    name: 'hoards transient slots',
    call: { to: HOARD.address, gas: MUCH_GAS },
    codes: [-32000, -32002],
    costs: 0,
  },
  // It may end by itself: each frame keeps a 64th of its gas.
  {
    name: 'grows memory in every frame',
    call: { to: DEEP.address, gas: MUCH_GAS },
    codes: [0, -32000, -32002],
    costs: 0,
  },
  {
    name: 'small powers by more than the default gas',
    call: { to: POWERS.address, gas: MUCH_GAS },
    codes: [-32002],
    costs: 0,
  },
  {
    name: 'small powers by the default gas',
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
    name: 'adds points',
    call: { to: ADDITIONS.address, data: POINTS, gas: MUCH_GAS },
    codes: [-32002],
    costs: 0,
  },
]

/** MODEXP of an exponent of 800 KB: one call of it, which is looked at in between. */
function modexp(): Bad['call'] {
  const length = (bytes: number) => bytes.toString(16).padStart(64, '0')
  const data = `0x${length(8)}${length(800_000)}${length(8)}${'ff'.repeat(800_008)}${'ff'.repeat(7)}fd`
  return { to: `0x${'5'.padStart(40, '0')}`, data }
}

/** What a worker does in the test build when the calldata of a call names it, with a view leased. */
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
  // So that JavaScript comes beyond it within the deadline; the engine's memory is no part of it.
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
    // An engine that asks for no deadline.
    file: 'engine/evm/fast/run.ts',
    find: 'if (running.isExpired?.() === true)',
    replace: 'if (Date.now() === 0)',
  },
]
const edited: readonly Bad[] = [
  // Its engine may have more than the heap that this build allows: then the worker is ended before the engine comes to its own bound.
  {
    name: 'hoards beyond its heap',
    call: { to: HOARD.address, gas: MUCH_GAS },
    codes: [-32000, -32002, -32603],
    costs: 2,
  },
  {
    name: 'endless without polls',
    call: { to: ENDLESS.address, gas: MUCH_GAS },
    codes: [-32002],
    costs: 1,
  },
  {
    name: 'pairs without polls',
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

/** `rounds`: how often each bad call is made. Those that end their worker come one after the other, the rest also all at once. */
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
    ['calls that take all they may', real, []],
    ['calls that end their worker', edited, BAD_BUILD],
  ] as const) {
    const node = await startOverloaded(flags, edits)
    const clients = startClients(node.url, options.random)
    const seen = await makeAll(node, bad, { rounds: options.rounds, isOneByOne: edits.length > 0 })
    const beside = await clients.stop()
    check(
      `${what}: each ends with its error`,
      seen.wrong.length === 0,
      `${seen.count} calls of ${bad.length} kinds${list(seen.wrong)}`,
    )
    figure(`slowest ${Math.round(seen.slowest)} ms, with ${CALL_MS} and ${GRACE_MS} for each`)
    check(
      `${what}: others are not touched`,
      isUntouched(beside),
      besideText(beside) + list(beside.wrong),
    )
    await checkPool(check, what, node, { bad, costs: seen.costs })
    check(`${what}: the node ends with 0`, (await node.stop()) === 0)
  }
}

type Seen = {
  count: number
  /** Workers that all of these may have cost. */
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

/** Its time may be over before a worker has begun it, where that is still being started: then it is made again. */
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
  // A busy machine may also end one that would have stopped by itself.
  seen.costs += Math.max(1, bad.costs)
  seen.slowest = Math.max(seen.slowest, ms)
  const isExpected = bad.codes.includes(error?.code ?? 0)
  if (!isExpected) seen.wrong.push(`${bad.name}: ${error?.code ?? result} ${error?.message ?? ''}`)
}

/** All workers are there, as many were replaced as there should be, and nobody holds an old view. */
async function checkPool(
  check: Check,
  what: string,
  node: OverloadedNode,
  { bad, costs: wanted }: { readonly bad: readonly Bad[]; readonly costs: number },
): Promise<void> {
  const least = bad.filter(({ costs }) => costs > 0).length
  const replaced = await settled(
    () => metric(node, 'flashnode_pool_replaced'),
    (count) => count >= least,
  )
  // The last one may still be starting.
  const threads = await settled(
    () => metric(node, 'flashnode_pool_threads'),
    (count) => count === THREADS,
  )
  check(
    `${what}: their workers are replaced`,
    threads === THREADS && replaced >= least && replaced <= wanted,
    `${threads} threads, ${replaced} replaced, at most ${wanted}`,
  )
  // A lease that nobody ends stays where it is while a block's records go by.
  await sleep(1_500)
  const age = await settled(
    () => leaseAge(node),
    (records) => records < MANY_RECORDS,
  )
  check(`${what}: no lease is left`, age < MANY_RECORDS, `the oldest is ${age} records old`)
}
/** Of two blocks, about. */
const MANY_RECORDS = 20

export async function leaseAge(node: OverloadedNode): Promise<number> {
  const metrics = await node.metrics()
  return metrics.get(chain('view_records'))! - metrics.get(chain('view_oldest_lease'))!
}

const list = (lines: readonly string[]): string =>
  [...new Set(lines)]
    .slice(0, 8)
    .map((line) => `\n       ${line}`)
    .join('')
