/** What a row has done to the others: its lines, and what is judged over all rows. */
import { type Check, figure } from '../../kit/checks.ts'
import type { FeedSeen } from '../soak/subscriber.ts'
import type { Told } from './attacker.ts'
import type { Heard } from './honest.ts'
import type { Processor } from './processor.ts'

export type Seen = {
  readonly heard: Heard
  readonly feed: FeedSeen
  readonly growthMb: number
  /** Looks until nobody felt it any more. */
  readonly calmLooks: number
  readonly processor: Processor
  readonly told: Told
}

export const CADENCE_MS = 200
const MAX_P99_MS = 250
const MAX_GROWTH_MB = 300
/** Looks at the honest clients until nobody feels it any more. */
const MAX_CALM_LOOKS = 3
/** An honest request waits for several threads in turn, the reference for one. */
const THREADS_IN_TURN = 3
/** One flashblock in so many may be later than a cadence. */
const ONE_LATE_IN = 200
const SHOWN = 4

/** The longest time for an answer: 250 ms, and the machine's share by the reference. */
const mostMs = ({ referenceMs }: Heard): number => MAX_P99_MS + THREADS_IN_TURN * referenceMs
export const isSuffered = ({ heard, growthMb, calmLooks }: Seen): boolean =>
  heard.p99 <= mostMs(heard) &&
  heard.failures.length === 0 &&
  growthMb <= MAX_GROWTH_MB &&
  calmLooks <= MAX_CALM_LOOKS
/** Nobody feels anything any more. */
export const isCalm = (heard: Heard): boolean =>
  heard.max <= mostMs(heard) && heard.failures.length === 0

const greatest = (numbers: readonly number[]) => numbers.reduce((a, b) => Math.max(a, b), 0)
/** Later than so many milliseconds, without what the subscriber was late itself and what the machine took. */
const lateIn = ({ feed: { late, ownLate }, heard: { referenceMs } }: Seen, ms: number) =>
  late.filter((one, at) => one > ms + ownLate[at]! + THREADS_IN_TURN * referenceMs).length

export const heardText = ({ count, p50, p99, max, failures, ownLagMs, referenceMs }: Heard) =>
  `p50 ${p50.toFixed(0).padStart(3)} p99 ${p99.toFixed(0).padStart(4)} max ${max.toFixed(0).padStart(5)} ms (own lag ${ownLagMs.toFixed(0)}, reference ${referenceMs.toFixed(0)}), ${failures.length} of ${count} failed`

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
  { heard, feed, growthMb, calmLooks, processor, told }: Seen,
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
    `${heardText(heard)}, ${memory}, ${late}, calm at look ${calmLooks}`,
    processorText(processor, told.processorMs),
    `hostile: ${outcomes}`,
    ...(slowest === '' ? [] : [`its slowest: ${slowest}`]),
    ...failed,
    ...feed.gaps.slice(0, SHOWN),
  ].join('\n       ')
}

/** @param seconds in which they were seen */
export function checkFeed(check: Check, all: readonly Seen[], seconds: number): void {
  const sum = (of: (seen: Seen) => number) => all.reduce((count, seen) => count + of(seen), 0)
  const total = sum(({ feed }) => feed.flashblocks)
  const [late, later] = [1, 2].map((times) => sum((seen) => lateIn(seen, times * CADENCE_MS)))
  const gaps = all.flatMap(({ feed }) => feed.gaps)
  const latest = greatest(all.map(({ feed }) => greatest(feed.late)))
  check(
    `of ${ONE_LATE_IN} flashblocks at most one is later than a cadence, none than two`,
    late! <= total / ONE_LATE_IN && later === 0,
    `${late} and ${later} of ${total}, the latest ${latest} ms`,
  )
  check(
    'each came once, in order',
    gaps.length === 0 && total > 0,
    ['', ...gaps.slice(0, SHOWN)].join('\n       '),
  )
  const due = (seconds * 1_000) / CADENCE_MS
  figure(`${total} flashblocks in ${Math.round(seconds)} s, ${Math.round((100 * total) / due)} %`)
}
