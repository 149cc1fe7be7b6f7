/**
 * A node with its default flags serves honest clients beside a hostile one, one row of attacks
 * after the other.
 */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type Check, HANGS_MS, measurement } from '../../kit/checks.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'
import { memoryOf } from '../soak/samples.ts'
import type { FeedSeen } from '../soak/subscriber.ts'
import type { Row } from './attack.ts'
import { startAttacker } from './attacker.ts'
import { fillStateCache } from './fill.ts'
import { type Honest, startHonest } from './honest.ts'
import { processorOf, since } from './processor.ts'
import {
  CADENCE_MS,
  checkFeed,
  isCalm,
  isTolerated,
  latenciesText,
  processorText,
  rowText,
  type Seen,
} from './report.ts'

const MAX_LEFT_MB = 100
const BACK_MS = 180_000
const BLOCK_MS = 1_000
/** The honest clients run alone first, so that code is compiled and heaps have their size. */
const WARM_MS = 25_000
/**
 * The observation goes on after the attacker has ended, because the cost of its end belongs to the
 * row.
 */
const AFTER_MS = 300
const CALM_MS = 300
/** A row that failed is repeated, because other load may have caused the failure. */
const TURNS = 2
const SAMPLE_MS = 100
const NAME_WIDTH = 68
const MB = 1e6

type Feed = { soFar(): Promise<FeedSeen>; stop(): Promise<unknown> }
type Watched = {
  readonly node: RunningNode
  readonly honest: Honest
  readonly feed: Feed
  /** Gives megabytes. */
  readonly rss: () => number
}
type RowsOptions = {
  /** The length of each row. */
  readonly seconds: number
  readonly seed: number
  /** The flags of the node. */
  readonly flags: readonly string[]
}

export async function sufferRows(
  check: Check,
  rows: readonly Row[],
  { seconds, seed, flags }: RowsOptions,
): Promise<void> {
  const startedAt = performance.now()
  const node = await startNode(['--ephemeral', ...flags])
  const onEnd = () => {
    console.log(`FAIL the node has ended:\n${node.output()}`)
    process.exit(1)
  }
  node.child.once('exit', onEnd)
  const honest = await startHonest(node.url, seed)
  const feed = await readFeed(node.url)
  const watched: Watched = {
    node,
    honest,
    feed,
    rss: () => memoryOf(node.pid, 0).rssBytes / MB,
  }
  await honest.latencies()
  await fillStateCache(node.url)
  const cold = processorOf(node.pid)
  await sleep(WARM_MS)
  const alone = await honest.latencies()
  const warmMb = watched.rss()
  await feed.soFar()
  const readAt = performance.now()
  console.log(
    `     alone: ${latenciesText(alone)}, ${Math.round(warmMb)} MB, ${processorText(since(cold, processorOf(node.pid)), 0)}`,
  )
  for (const failure of alone.failures) console.log(`       ${failure}`)

  const all: Seen[] = []
  for (const [at, row] of rows.entries()) {
    let seen: Seen | undefined
    for (let turn = 0; turn < TURNS && !(seen && isTolerated(seen)); turn++) {
      if (seen !== undefined) measurement(`again: ${row.name}: ${rowText(seen, watched.rss())}`)
      seen = await suffer(watched, row, { seconds, seed: seed + at })
      all.push(seen)
    }
    check(row.name.padEnd(NAME_WIDTH), isTolerated(seen!), rowText(seen!, watched.rss()))
  }
  checkFeed(check, all, (performance.now() - readAt) / 1_000)
  const took = Math.round((performance.now() - startedAt) / 1_000)
  await checkMemory(check, watched, warmMb)
  await honest.stop()
  node.child.off('exit', onEnd)
  await feed.stop()
  check('the node ends with 0', (await node.stop()) === 0, `${rows.length} rows in ${took} s`)
}

async function suffer(
  { node, honest, feed, rss }: Watched,
  { name, times = 1 }: Row,
  { seconds, seed }: { readonly seconds: number; readonly seed: number },
): Promise<Seen> {
  const port = Number(new URL(node.url).port)
  const attacker = await startAttacker({ row: name, port, seconds: times * seconds, seed })
  // Earlier requests do not belong to this row.
  await honest.latencies()
  const before = rss()
  let max = before
  const processor = processorOf(node.pid)
  const timer = setInterval(() => {
    max = Math.max(max, rss())
  }, SAMPLE_MS)
  const reported = await attacker.attack()
  await sleep(AFTER_MS)
  const latencies = await honest.latencies()
  const calmChecks = await calm(honest)
  clearInterval(timer)
  return {
    latencies,
    calmChecks,
    reported,
    feed: await feed.soFar(),
    growthMb: max - before,
    processor: since(processor, processorOf(node.pid)),
  }
}

/** Waits until the honest clients are calm, so that this row does not affect the next one. */
async function calm(honest: Honest): Promise<number> {
  const end = performance.now() + HANGS_MS
  for (let checks = 1; ; checks++) {
    await sleep(CALM_MS)
    if (isCalm(await honest.latencies()) || performance.now() > end) return checks
  }
}

async function readFeed(url: string): Promise<Feed> {
  const worker = new Worker(new URL('../soak/subscriber.ts', import.meta.url), {
    workerData: {
      url: `${url.replace('http', 'ws')}/feed`,
      blockTimeMs: BLOCK_MS,
      flashblockTimeMs: CADENCE_MS,
    },
  })
  await once(worker, 'message')
  return {
    async soFar() {
      worker.postMessage('so far')
      const [seen] = (await once(worker, 'message')) as [FeedSeen]
      return seen
    },
    stop: () => worker.terminate(),
  }
}

/**
 * Checks that the memory falls once, because memory that is retained for good would not be freed.
 */
async function checkMemory(check: Check, { rss }: Watched, warmMb: number): Promise<void> {
  const startedAt = performance.now()
  const elapsed = () => performance.now() - startedAt
  let now = rss()
  while (now > warmMb + MAX_LEFT_MB && elapsed() < BACK_MS) {
    await sleep(500)
    now = rss()
  }
  check(
    `memory is back within ${MAX_LEFT_MB} MB of the warm start`,
    now <= warmMb + MAX_LEFT_MB,
    `${Math.round(warmMb)} MB, ${Math.round(now)} MB after ${Math.round(elapsed() / 1_000)} s`,
  )
}
