/**
 * This module reports the effect of a row on others, line by line, and judges all rows together.
 */
import { type Check, measurement } from '../../kit/checks.ts'
import type { FeedSeen } from '../soak/subscriber.ts'
import type { AttackReport } from './attacker.ts'
import type { Latencies } from './honest.ts'
import type { Processor } from './processor.ts'

export type Seen = {
  readonly latencies: Latencies
  readonly feed: FeedSeen
  readonly growthMb: number
  /** The number of checks until no client noticed the attack any more. */
  readonly calmChecks: number
  readonly processor: Processor
  readonly reported: AttackReport
}

export const CADENCE_MS = 200
const MAX_P99_MS = 250
const MAX_GROWTH_MB = 300
/** The maximum number of checks until no client notices the attack any more. */
const MAX_CALM_CHECKS = 3
/** An honest request waits for several threads in turn, the reference for one. */
const THREADS_IN_TURN = 3
/** One flashblock in this many may be later than a cadence. */
const ONE_LATE_IN = 200
const PRINTED = 4

/** The longest allowed time for a response: 250 ms, plus the machine's share by the reference. */
const maxMs = ({ referenceMs }: Latencies): number => MAX_P99_MS + THREADS_IN_TURN * referenceMs
export const isTolerated = ({ latencies, growthMb, calmChecks }: Seen): boolean =>
  latencies.p99 <= maxMs(latencies) &&
  latencies.failures.length === 0 &&
  growthMb <= MAX_GROWTH_MB &&
  calmChecks <= MAX_CALM_CHECKS
/** Whether no client notices the attack any more. */
export const isCalm = (latencies: Latencies): boolean =>
  latencies.max <= maxMs(latencies) && latencies.failures.length === 0

const greatest = (numbers: readonly number[]) => numbers.reduce((a, b) => Math.max(a, b), 0)
/**
 * Counts the flashblocks later than this, without the delay of the subscriber and of the machine.
 */
const lateIn = ({ feed: { late, ownLate }, latencies: { referenceMs } }: Seen, ms: number) =>
  late.filter((one, at) => one > ms + ownLate[at]! + THREADS_IN_TURN * referenceMs).length

export const latenciesText = ({
  count,
  p50,
  p99,
  max,
  failures,
  ownLagMs,
  referenceMs,
}: Latencies) =>
  `p50 ${p50.toFixed(0).padStart(3)} p99 ${p99.toFixed(0).padStart(4)} max ${max.toFixed(0).padStart(5)} ms (own lag ${ownLagMs.toFixed(0)}, reference ${referenceMs.toFixed(0)}), ${failures.length} of ${count} failed`

const inSeconds = (ms: number) => (ms / 1_000).toFixed(2)
/**
 * Formats the processor time.
 * @param attackerMs the time of the hostile client
 */
export function processorText(
  { frontMs, frontWaitedMs, nodeMs, ownMs, machineMs }: Processor,
  attackerMs: number,
): string {
  const othersMs = Math.max(0, machineMs - nodeMs - ownMs - attackerMs)
  return `seconds of processor: node ${inSeconds(nodeMs)}, its front ${inSeconds(frontMs)} (waited ${inSeconds(frontWaitedMs)} for one), hostile ${inSeconds(attackerMs)}, honest ${inSeconds(ownMs)}, others ${inSeconds(othersMs)}`
}

export function rowText(
  { latencies, feed, growthMb, calmChecks, processor, reported }: Seen,
  rssMb: number,
): string {
  const late = `${feed.flashblocks} flashblocks, latest ${greatest(feed.late)} ms (own lag ${greatest(feed.ownLag).toFixed(0)})`
  const outcomes = Object.entries(reported.outcomes)
    .sort(([, a], [, b]) => b - a)
    .map(([outcome, count]) => `${outcome} ${count}`)
    .join(', ')
  const slowest = reported.slowest.map(({ what, ms }) => `${what} ${Math.round(ms)} ms`).join('; ')
  const failed = [...new Set(latencies.failures)].slice(0, PRINTED)
  const memory = `+${Math.round(growthMb)} MB to ${Math.round(rssMb)}`
  return [
    `${latenciesText(latencies)}, ${memory}, ${late}, calm at look ${calmChecks}`,
    processorText(processor, reported.processorMs),
    `hostile: ${outcomes}`,
    ...(slowest === '' ? [] : [`its slowest: ${slowest}`]),
    ...failed,
    ...feed.gaps.slice(0, PRINTED),
  ].join('\n       ')
}

/**
 * Checks the feed over all rows.
 * @param seconds the length of the observation
 */
export function checkFeed(check: Check, all: readonly Seen[], seconds: number): void {
  const sum = (of: (seen: Seen) => number) => all.reduce((count, seen) => count + of(seen), 0)
  const total = sum(({ feed }) => feed.flashblocks)
  const [late, later] = [1, 2].map((times) => sum((seen) => lateIn(seen, times * CADENCE_MS)))
  const gaps = all.flatMap(({ feed }) => feed.gaps)
  const latest = greatest(all.map(({ feed }) => greatest(feed.late)))
  check(
    `at most one flashblock of ${ONE_LATE_IN} is a cadence late, and none two cadences`,
    late! <= total / ONE_LATE_IN && later === 0,
    `${late} and ${later} of ${total}, the latest ${latest} ms`,
  )
  check(
    'each flashblock came once, in order',
    gaps.length === 0 && total > 0,
    ['', ...gaps.slice(0, PRINTED)].join('\n       '),
  )
  const due = (seconds * 1_000) / CADENCE_MS
  measurement(
    `${total} flashblocks in ${Math.round(seconds)} s, ${Math.round((100 * total) / due)} %`,
  )
}
