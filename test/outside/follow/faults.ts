/**
 * These faults happen between a follower and its sources. The follower must report them, stay
 * right, and go on.
 */
import { HANGS_MS } from '../../kit/checks.ts'
import type { RunningNode } from '../../kit/node.ts'
import { type Comparer, createComparer } from './compare.ts'
import { type FollowerFlags, headOf, readiness, startFollower, temporary, until } from './nodes.ts'
import { type Around, compareFor, pendingRestored, type Section, summaryOf } from './section.ts'
import { type FeedFault, startProxy, startRelay, type UpstreamFault, type Wire } from './wires.ts'

/** No server listens at this address. */
const DEAD = 'http://127.0.0.1:49'
const LAG = 3
const SOME = 300

type Bench = Around & {
  readonly name: string
  readonly upstreams: readonly [Wire<UpstreamFault>, Wire<UpstreamFault>]
  readonly feeds: readonly [Wire<FeedFault>, Wire<FeedFault>]
  readonly comparer: Comparer
  /** Gives the node that runs now. */
  node(): RunningNode
  restart(): Promise<void>
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function onBench(
  name: 'whole' | 'proven',
  around: Around,
  faults: readonly Fault[],
): Promise<void> {
  const { leader, random, check } = around
  const { url } = leader.node
  const target = `${url}/`
  const feed = { target: `${url.replace('http', 'ws')}/feed` }
  const upstreams = [await startProxy({ target }), await startProxy({ target })] as const
  const feeds = [await startRelay(feed), await startRelay(feed)] as const
  const flags: FollowerFlags = {
    datadir: temporary(`faults-${name}`),
    upstreams: [upstreams[0].url, DEAD, upstreams[1].url],
    feeds: feeds.map((one) => one.url),
    more: ['--state', name === 'whole' ? 'whole' : 'lazy'],
  }
  let node = await startFollower(leader, flags)
  const comparer = createComparer({
    leader: url,
    follower: node.url,
    world: leader.load.world,
    random,
    isLazy: name !== 'whole',
    oldest: node.head,
  })
  const bench: Bench = {
    ...around,
    name,
    upstreams,
    feeds,
    comparer,
    node: () => node,
    async restart() {
      await node.stop('SIGKILL')
      node = await startFollower(leader, flags)
      comparer.follow(node.url)
    },
  }
  try {
    check(
      `${name}: with one of three upstreams dead, the follower follows the others`,
      await pendingRestored(comparer, HANGS_MS),
    )
    for (const fault of faults) await fault(bench)
    const compared = await compareFor(comparer, { count: SOME, withinMs: HANGS_MS })
    check(
      `${name}: no response differed during the faults`,
      compared.differences.length === 0,
      summaryOf(compared),
    )
    check(`${name}: the follower ends with 0`, (await node.stop()) === 0)
  } catch (error) {
    console.log(node.output().slice(-3_000))
    throw error
  } finally {
    if (around.isLogged) console.log(node.output())
    await node.stop('SIGKILL')
    await Promise.all([...upstreams, ...feeds].map((wire) => wire.stop()))
  }
}

/** Checks that both heads are nearly at the same block, and that pending is equal. */
async function recovers(bench: Bench, what: string): Promise<void> {
  const { check, comparer, leader, name } = bench
  const started = performance.now()
  const isHead = await until(
    async () => (await headOf(bench.node().url)) >= (await headOf(leader.node.url)) - LAG,
    HANGS_MS,
  )
  const isPending = await pendingRestored(comparer, HANGS_MS)
  const ms = Math.round(performance.now() - started)
  const { status, reasons } = await readiness(bench.node().url)
  check(
    `${name}: ${what}: the follower reaches the head and has flashblocks again`,
    isHead && isPending,
    `head ${isHead}, pending ${isPending} after ${ms} ms, ${status} ${reasons.join('; ')}`,
  )
}

type Meanwhile = {
  /** The number of compared responses. */
  readonly pending: number
  /** The status codes and texts of /readyz. */
  readonly seen: readonly string[]
  /** The number of blocks by which the head moved. */
  readonly moved: number
}

/** Compares while a fault lasts: for this long, and until the result is enough. */
async function meanwhile(
  bench: Bench,
  ms: number,
  isEnough: (seen: Meanwhile) => boolean = () => true,
): Promise<Meanwhile> {
  const before = bench.comparer.compared.pending
  const from = await headOf(bench.node().url)
  const started = performance.now()
  const elapsed = () => performance.now() - started
  const statuses = new Set<string>()
  for (;;) {
    await bench.comparer.pending().catch(() => 0)
    const { code, status } = await readiness(bench.node().url)
    statuses.add(`${code} ${status}`)
    const pending = bench.comparer.compared.pending - before
    const seen = { pending, seen: [...statuses], moved: (await headOf(bench.node().url)) - from }
    if (elapsed() >= ms && (isEnough(seen) || elapsed() >= HANGS_MS)) return seen
    await pause(100)
  }
}

async function killed(bench: Bench): Promise<void> {
  for (let times = 0; times < bench.restarts; times++) {
    await compareFor(bench.comparer, { count: SOME, withinMs: HANGS_MS })
    await bench.restart()
    await recovers(bench, `kill -9, ready again after ${Math.round(bench.node().readyMs)} ms`)
  }
}

async function feedCut(bench: Bench): Promise<void> {
  await Promise.all(bench.feeds.map((feed) => feed.fault('cut')))
  const isDegraded = ({ moved, seen }: Meanwhile) => moved >= 2 && seen.includes('200 degraded')
  const { seen, moved } = await meanwhile(bench, 5_000, isDegraded)
  await Promise.all(bench.feeds.map((feed) => feed.fault('none')))
  bench.check(
    `${bench.name}: a cut of all feeds is degraded and no more: blocks come`,
    moved >= 2 && seen.includes('200 degraded') && !seen.some((one) => one.startsWith('503')),
    `${moved} blocks, ${seen.join(', ')}`,
  )
  await recovers(bench, 'feeds cut for 5 s')
}

async function oneFeedCut(bench: Bench): Promise<void> {
  await bench.feeds[0].fault('cut')
  const { pending, seen } = await meanwhile(bench, 3_000, ({ pending }) => pending > 0)
  await bench.feeds[0].fault('none')
  bench.check(
    `${bench.name}: one feed of two is cut: pending goes on`,
    pending > 0,
    `${pending} compared, ${seen.join(', ')}`,
  )
}

async function upstreamsCut(bench: Bench): Promise<void> {
  await Promise.all(bench.upstreams.map((upstream) => upstream.fault('cut')))
  const isSaid = ({ seen }: Meanwhile) => seen.some((one) => one !== '200 ready')
  const { pending, seen } = await meanwhile(bench, 10_000, isSaid)
  await Promise.all(bench.upstreams.map((upstream) => upstream.fault('none')))
  bench.check(
    `${bench.name}: while the upstreams are cut, it does not say that all is well`,
    seen.some((one) => one !== '200 ready'),
    `${pending} compared on pending meanwhile, ${seen.join(', ')}`,
  )
  await recovers(bench, 'upstreams cut for 10 s')
}

async function garbage(bench: Bench): Promise<void> {
  await bench.feeds[1].fault('garbage')
  const { pending, seen } = await meanwhile(bench, 6_000, ({ pending }) => pending >= SOME / 2)
  await bench.feeds[1].fault('none')
  bench.check(
    `${bench.name}: garbage on one feed of two: pending goes on`,
    pending >= SOME / 2,
    `${pending} compared, ${seen.join(', ')}`,
  )
  await recovers(bench, 'garbage on the feed')
}

const upstreamFault =
  (fault: UpstreamFault, ms: number) =>
  async (bench: Bench): Promise<void> => {
    const [first] = bench.upstreams
    await first.fault(fault)
    const { pending, seen } = await meanwhile(bench, ms)
    await recovers(bench, `${fault} of the first upstream (still)`)
    await first.fault('none')
    console.log(`   ${fault}: ${pending} compared on pending meanwhile, ${seen.join(', ')}`)
  }

type Fault = (bench: Bench) => Promise<void>

const FULL_STATE: Readonly<Record<string, Fault>> = {
  kill: killed,
  'one-feed': oneFeedCut,
  feeds: feedCut,
  upstreams: upstreamsCut,
  garbage,
  '429': upstreamFault('429', 3_000),
  'wrong-block': upstreamFault('wrong-block', 4_000),
  'forged-block': upstreamFault('forged-block', 4_000),
  silence: upstreamFault('silence', 10_000),
}
const PROVEN: Readonly<Record<string, Fault>> = {
  kill: killed,
  feeds: feedCut,
  upstreams: upstreamsCut,
  '429': upstreamFault('429', 3_000),
  'wrong-block': upstreamFault('wrong-block', 4_000),
  'wrong-proof': upstreamFault('wrong-proof', 4_000),
  silence: upstreamFault('silence', 10_000),
}

const section =
  (name: 'whole' | 'proven', faults: readonly Fault[]): Section =>
  (around) =>
    onBench(name, around, faults)

export const FAULTS: Readonly<Record<string, Section>> = {
  'faults-whole': section('whole', Object.values(FULL_STATE)),
  'faults-proven': section('proven', Object.values(PROVEN)),
}
/** Makes a section of some faults: `whole:kill+silence`. undefined: no such fault exists. */
export function someFaults(name: string): Section | undefined {
  const [mode, names = ''] = name.split(':')
  if (mode !== 'whole' && mode !== 'proven') return undefined
  const all = mode === 'whole' ? FULL_STATE : PROVEN
  const faults = names.split('+').map((one) => all[one])
  return faults.every((one) => one !== undefined) ? section(mode, faults) : undefined
}
