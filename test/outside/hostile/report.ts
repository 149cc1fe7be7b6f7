/** What a row has done to the others: its lines, and what is judged over all rows. */
import type { Check } from '../checks.ts'
import type { FeedSeen } from '../soak/subscriber.ts'
import type { Told } from './attacker.ts'
import type { Heard } from './honest.ts'
import type { Processor } from './processor.ts'

export type Seen = {
  readonly heard: Heard
  readonly feed: FeedSeen
  readonly growthMb: number
  /** Until nobody felt it any more. */
  readonly calmMs: number
  readonly processor: Processor
  readonly told: Told
}

export const CADENCE_MS = 200
const MAX_P99_MS = 250
const MAX_GROWTH_MB = 300
const MAX_CALM_MS = 1_000
/** One flashblock in so many may be later than a cadence. */
const ONE_LATE_IN = 200
/** Of those that are due: nobody counts them between two rows. */
const MOST_THAT_COME = 0.95
const SHOWN = 4

export const isSuffered = ({ heard, growthMb, calmMs }: Seen): boolean =>
  heard.p99 <= MAX_P99_MS &&
  heard.failures.length === 0 &&
  growthMb <= MAX_GROWTH_MB &&
  calmMs <= MAX_CALM_MS
/** Nobody feels anything any more. */
export const isCalm = ({ max, failures }: Heard): boolean =>
  max <= MAX_P99_MS && failures.length === 0

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

/** @param seconds in which they were seen */
export function checkFeed(check: Check, all: readonly FeedSeen[], seconds: number): void {
  const sum = (of: (seen: FeedSeen) => number) => all.reduce((count, seen) => count + of(seen), 0)
  const total = sum(({ flashblocks }) => flashblocks)
  const [late, later] = [1, 2].map((times) => sum((seen) => lateIn(seen, times * CADENCE_MS)))
  const gaps = all.flatMap((seen) => seen.gaps)
  check(
    `of ${ONE_LATE_IN} flashblocks at most one is later than a cadence, none than two`,
    late! <= total / ONE_LATE_IN && later === 0,
    `${late} and ${later} of ${total}, the latest ${greatest(all.map((seen) => greatest(seen.late)))} ms`,
  )
  const wanted = Math.floor(((seconds * 1_000) / CADENCE_MS) * MOST_THAT_COME)
  check(
    'each came once, in order',
    gaps.length === 0 && total >= wanted,
    `${total} in ${Math.round(seconds)} s${['', ...gaps.slice(0, SHOWN)].join('\n       ')}`,
  )
}
