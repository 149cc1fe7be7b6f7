/**
 * The node runs like by `npm start`, under steady load from several addresses for an hour. Memory
 * must stay flat, and flashblocks must come on time.
 * Usage: npm run soak [-- --short] [--seed S] [--seconds N]
 */

import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { checks } from '../kit/checks.ts'
import { freePort } from '../kit/free-port.ts'
import { startNode } from '../kit/node.ts'
import { runOptions } from '../kit/run-options.ts'
import { runLoad } from './soak/load.ts'
import { type Memory, memoryOf, percentile, type Sample, sampleOf, slope } from './soak/samples.ts'
import type { FeedSeen } from './soak/subscriber.ts'

const BLOCK_TIME_MS = 1_000
const CADENCE_MS = 200
const RATES = { transactions: 50, calls: 200 }
const MEMORY_MS = 5_000
/**
 * One sample of the metrics comes with this many memory samples. The front's timers need a while
 * for a 99th percentile.
 */
const MEMORY_PER_SAMPLE = 11
/** The slope is measured over the last quarter, at most 15 minutes. */
const WINDOW_SECONDS = 900
const MAX_SLOPE_MB_PER_MINUTE = 1
/**
 * Memory may grow by this much in a window that is too short for a slope. V8 still sizes its heaps
 * then.
 */
const MAX_SHORT_GROWTH_MB = 200
const MAX_LAG_MS = 20
const MB = 1e6

const { seconds, random } = runOptions('soak', { full: 3_600, short: 60 })
const { check, close } = checks('soak')

const datadir = mkdtempSync(join(tmpdir(), 'flashnode-soak-'))
process.once('exit', () => rmSync(datadir, { recursive: true, force: true }))
const adminPort = await freePort()
const node = await startNode(['--datadir', datadir, '--admin-port', String(adminPort)])
const metricsUrl = `http://127.0.0.1:${adminPort}/metrics`

const feed = new Worker(new URL('./soak/subscriber.ts', import.meta.url), {
  workerData: {
    url: `${node.url.replace('http', 'ws')}/feed`,
    blockTimeMs: BLOCK_TIME_MS,
    flashblockTimeMs: CADENCE_MS,
  },
})
await once(feed, 'message')

const stop = new AbortController()
const loading = runLoad({ url: node.url, rates: RATES, random, stopped: stop.signal })
const startedAt = performance.now()
const elapsed = () => (performance.now() - startedAt) / 1_000
const samples: Sample[] = []
const memory: Memory[] = []
while (elapsed() < seconds && node.child.exitCode === null && node.child.signalCode === null) {
  await new Promise((resolve) => setTimeout(resolve, MEMORY_MS))
  memory.push(memoryOf(node.pid, elapsed()))
  if (memory.length % MEMORY_PER_SAMPLE !== 1) continue
  const sample = await sampleOf(metricsUrl, datadir, elapsed())
  samples.push(sample)
  const rss = Math.round(memory.at(-1)!.rssBytes / MB)
  if (seconds > 300)
    console.log(
      `${Math.round(sample.at)} s: ${rss} MB, block ${sample.block}, ${sample.lagMs.toFixed(1)} ms`,
    )
}
stop.abort()
const load = await loading
feed.postMessage('end')
const [seen] = (await once(feed, 'message')) as [FeedSeen]

check(
  `transactions at ${RATES.transactions}/s and calls at ${RATES.calls}/s were sent`,
  load.held <= (load.transactions + load.calls) / 100,
  `${load.transactions} transactions, ${load.calls} calls, ${load.held} held back, slowest answer ${Math.round(load.slowestMs)} ms`,
)
check(
  'each request was answered with a result',
  load.failures === 0,
  [load.failures, ...load.examples].join('\n       '),
)

const windowSeconds = Math.min(WINDOW_SECONDS, seconds / 4)
const window = memory.filter(({ at }) => at >= elapsed() - windowSeconds)
const [start, end] = [window[0]!, window.at(-1)!]
const perMinute = (slope(window) * 60) / MB
const isLong = windowSeconds >= WINDOW_SECONDS
const peak = Math.max(...memory.map(({ rssBytes }) => rssBytes))
check(
  isLong
    ? `memory grows by less than ${MAX_SLOPE_MB_PER_MINUTE} MB a minute in the last 15 minutes`
    : `memory grows by less than ${MAX_SHORT_GROWTH_MB} MB in the last quarter (no slope under an hour)`,
  isLong
    ? perMinute < MAX_SLOPE_MB_PER_MINUTE
    : end.rssBytes - start.rssBytes < MAX_SHORT_GROWTH_MB * MB,
  `${perMinute.toFixed(2)} MB/min over ${Math.round(end.at - start.at)} s of ${window.length} samples, at the end ${Math.round(end.rssBytes / MB)} MB, at most ${Math.round(peak / MB)} MB`,
)
const last = samples.at(-1)!
const held = samples.map(({ pinnedPages }) => pinnedPages)
const minFree = Math.min(...samples.map(({ freePages }) => freePages))
check(
  'the arena gives back what blocks took',
  minFree > last.pages / 2,
  `${percentile(held, 0.5)} of ${last.pages} pages held in the middle, ${Math.max(...held)} at most, ${minFree} free at least`,
)
const blocks = last.block - samples[0]!.block
check(
  'the node made blocks on time',
  blocks >= (last.at - samples[0]!.at) * 0.98 - 1,
  `${blocks} in ${Math.round(last.at - samples[0]!.at)} s, ${Math.round((last.diskBytes - samples[0]!.diskBytes) / blocks)} bytes of disk each`,
)
// The subscriber's own delays are subtracted. The node is not to blame when the machine has no time
// for the subscriber. An hour has too many samples to be arguments of one call.
const greatest = (numbers: readonly number[]) => numbers.reduce((a, b) => Math.max(a, b), 0)
const latest = greatest(seen.late)
const ownLatest = greatest(seen.ownLag)
check(
  'an outside subscriber saw every flashblock once, in order',
  seen.gaps.length === 0 && seen.blocks >= blocks,
  `${seen.flashblocks} of ${seen.blocks} blocks${['', ...seen.gaps.slice(0, 5)].join('\n       ')}`,
)
check(
  `no flashblock came more than one cadence late (${CADENCE_MS} ms)`,
  latest <= CADENCE_MS + ownLatest,
  `p50 ${percentile(seen.late, 0.5)} ms, p99 ${percentile(seen.late, 0.99)} ms, at most ${latest} ms after it was due, ${seen.late.filter((ms) => ms > CADENCE_MS).length} too late; timers of the subscriber itself ${percentile(seen.ownLag, 0.99).toFixed(1)} ms late, p99, ${ownLatest.toFixed(1)} at most${['', ...seen.worst.slice(0, 20)].join('\n       ')}`,
)
// The first sample is that of the start.
const lags = samples.slice(1).map(({ lagMs }) => lagMs)
check(
  `timers of the front thread are at most ${MAX_LAG_MS} ms late, p99`,
  lags.filter((ms) => ms > MAX_LAG_MS + percentile(seen.ownLag, 0.99)).length <= lags.length / 20,
  `p99 of a minute: ${percentile(lags, 0.5).toFixed(1)} ms in the middle of ${lags.length}, ${Math.max(...lags).toFixed(1)} ms at most`,
)
const exit = await node.stop()
check('the node ends with 0', exit === 0, String(exit))
close()
