/** What a row has done to the others: its lines, and what is judged over all rows. */
import { type Check, figure, HANGS_MS } from '../checks.ts'
import type { FeedSeen } from '../soak/subscriber.ts'
import type { Told } from './attacker.ts'
import type { Heard } from './honest.ts'
import type { Processor } from './processor.ts'

export type Seen = {
  readonly heard: Heard
  readonly feed: FeedSeen
  readonly growthMb: number
  /** Until no honest request failed any more. */
  readonly calmMs: number
  readonly processor: Processor
  readonly told: Told
}

export const CADENCE_MS = 200
const MAX_GROWTH_MB = 300
const SHOWN = 4

export const isSuffered = ({ heard, growthMb, calmMs }: Seen): boolean =>
  heard.failures.length === 0 && growthMb <= MAX_GROWTH_MB && calmMs <= HANGS_MS

const greatest = (numbers: readonly number[]) => numbers.reduce((a, b) => Math.max(a, b), 0)
/** Later than so many milliseconds, more than the subscriber was late itself when they came. */
const lateIn = ({ late, ownLate }: FeedSeen, ms: number) =>
  late.filter((one, at) => one > ms + ownLate[at]!).length

export const heardText = ({ count, p50, p99, max, failures, ownLagMs }: Heard) =>
  `p50 ${p50.toFixed(0).padStart(3)} p99 ${p99.toFixed(0).padStart(4)} max ${max.toFixed(0).padStart(5)} ms (own lag ${ownLagMs.toFixed(0)}), ${failures.length} of ${count} failed`

const inSeconds = (ms: number) => (ms / 1_000).toFixed(2)
/** @param attackerMs what the hostile client took */
export function processorText(
  { frontMs, frontWaitedMs, nodeMs, ownMs, machineMs }: Processor,
  attackerMs: number,
): string {
  const othersMs = Math.max(0, machineMs - nodeMs - ownMs - attackerMs)
  return `seconds of processor: node ${inSeconds(nodeMs)}, its front ${inSeconds(frontMs)} (waited ${inSeconds(frontWaitedMs)} for one), hostile ${inSeconds(attackerMs)}, honest ${inSeconds(ownMs)}, others ${inSeconds(othersMs)}`
}

export function rowText(
  { heard, feed, growthMb, calmMs, processor, told }: Seen,
  rssMb: number,
): string {
  const late = `${feed.flashblocks} flashblocks, latest ${greatest(feed.late)} ms (own lag ${greatest(feed.ownLag).toFixed(0)})`
  const outcomes = Object.entries(told.outcomes)
    .sort(([, a], [, b]) => b - a)
    .map(([outcome, count]) => `${outcome} ${count}`)
    .join(', ')
  const slowest = told.slowest.map(({ what, ms }) => `${what} ${Math.round(ms)} ms`).join('; ')
  const failed = [...new Set(heard.failures)].slice(0, SHOWN)
  const memory = `+${Math.round(growthMb)} MB to ${Math.round(rssMb)}`
  return [
    `${heardText(heard)}, ${memory}, ${late}, calm after ${(calmMs / 1_000).toFixed(1)} s`,
    processorText(processor, told.processorMs),
    `hostile: ${outcomes}`,
    ...(slowest === '' ? [] : [`its slowest: ${slowest}`]),
    ...failed,
    ...feed.gaps.slice(0, SHOWN),
  ].join('\n       ')
}

/** @param made blocks that the node has made meanwhile */
export function checkFeed(check: Check, all: readonly FeedSeen[], made: number): void {
  const sum = (of: (seen: FeedSeen) => number) => all.reduce((count, seen) => count + of(seen), 0)
  const total = sum(({ flashblocks }) => flashblocks)
  const blocks = sum((seen) => seen.blocks)
  const gaps = all.flatMap((seen) => seen.gaps)
  check(
    'each flashblock came once, in order',
    gaps.length === 0 && blocks >= made && total > blocks,
    `${total} of ${blocks} blocks, ${made} were made${['', ...gaps.slice(0, SHOWN)].join('\n       ')}`,
  )
  const [late, later] = [1, 2].map((times) => sum((seen) => lateIn(seen, times * CADENCE_MS)))
  const latest = greatest(all.map((seen) => greatest(seen.late)))
  check('none hung', latest <= HANGS_MS)
  figure(`${late} later than a cadence, ${later} than two, the latest ${latest} ms`)
}
