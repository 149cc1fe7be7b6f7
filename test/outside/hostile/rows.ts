/** A node with its default flags, a hostile client beside honest ones, one row of attacks after the other. */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type Check, figure, HANGS_MS } from '../../kit/checks.ts'
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
  heardText,
  isCalm,
  isSuffered,
  processorText,
  rowText,
  type Seen,
} from './report.ts'

const MAX_LEFT_MB = 100
const BACK_MS = 180_000
const BLOCK_MS = 1_000
/** The honest clients alone: code is compiled, heaps have their size. */
const WARM_MS = 25_000
/** After the attacker has gone: what its end costs belongs to the row. */
const AFTER_MS = 300
const CALM_MS = 300
/** A row that was suffered otherwise once may have met something else. */
const TURNS = 2
const SAMPLE_MS = 100
const NAME_WIDTH = 68
const MB = 1e6

type Feed = { soFar(): Promise<FeedSeen>; stop(): Promise<unknown> }
type Watched = {
  readonly node: RunningNode
  readonly honest: Honest
  readonly feed: Feed
  /** Megabytes. */
  readonly rss: () => number
}
type RowsOptions = {
  /** Of each row. */
  readonly seconds: number
  readonly seed: number
  /** Of the node. */
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
    ...{ node, honest, feed },
    rss: () => memoryOf(node.pid, 0).rssBytes / MB,
  }
  await honest.heard()
  await fillStateCache(node.url)
  const cold = processorOf(node.pid)
  await sleep(WARM_MS)
  const alone = await honest.heard()
  const warmMb = watched.rss()
  await feed.soFar()
  const readAt = performance.now()
  console.log(
    `     alone: ${heardText(alone)}, ${Math.round(warmMb)} MB, ${processorText(since(cold, processorOf(node.pid)), 0)}`,
  )
  for (const failure of alone.failures) console.log(`       ${failure}`)

  const all: Seen[] = []
  for (const [at, row] of rows.entries()) {
    let seen: Seen | undefined
    for (let turn = 0; turn < TURNS && !(seen && isSuffered(seen)); turn++) {
      if (seen !== undefined) figure(`again: ${row.name}: ${rowText(seen, watched.rss())}`)
      seen = await suffer(watched, row, { seconds, seed: seed + at })
      all.push(seen)
    }
    check(row.name.padEnd(NAME_WIDTH), isSuffered(seen!), rowText(seen!, watched.rss()))
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
  // What was asked before is not this row's.
  await honest.heard()
  const before = rss()
  let most = before
  const processor = processorOf(node.pid)
  const timer = setInterval(() => {
    most = Math.max(most, rss())
  }, SAMPLE_MS)
  const told = await attacker.attack()
  await sleep(AFTER_MS)
  const heard = await honest.heard()
  const calmLooks = await calm(honest)
  clearInterval(timer)
  return {
    ...{ heard, calmLooks, told, feed: await feed.soFar(), growthMb: most - before },
    processor: since(processor, processorOf(node.pid)),
  }
}

/** Looks until the honest clients are well again: the next row is not to be blamed for this one. */
async function calm(honest: Honest): Promise<number> {
  const end = performance.now() + HANGS_MS
  for (let looks = 1; ; looks++) {
    await sleep(CALM_MS)
    if (isCalm(await honest.heard()) || performance.now() > end) return looks
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

/** Once is enough: what the node has to keep for good would not go. */
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
