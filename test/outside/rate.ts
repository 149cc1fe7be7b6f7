/**
 * These rules judge a rate limit from outside. A second of an address starts with its first
 * request. Requests that take N full seconds touch at most N + 1 of these seconds. At most their
 * points may be served, however slow the client and the node are.
 */

import { HANGS_MS } from '../kit/checks.ts'
import { readMetrics, sumOfMetrics } from '../kit/metrics.ts'

/** Each counted request costs one point. */
export type Counts = { readonly sent: number; readonly served: number }
export type RequestCounts = Counts & {
  /** The seconds of the limiter that the requests may have touched. */
  readonly seconds: number
  /** The points of these seconds, and those that a node returned after it stood still. */
  readonly max: number
}
export type Limit = {
  readonly perSecond: number
  /** The metrics URL of each node. */
  readonly metrics: readonly string[]
}

/** Each attempt has its own address, which one byte numbers. */
const MAX_TRIES = 250

/**
 * Counts the requests with their limit.
 * @param request sends from an address without earlier requests
 */
export async function query<T extends Counts>(
  { perSecond, metrics }: Limit,
  request: () => Promise<T>,
): Promise<T & RequestCounts> {
  const before = await stalledSeconds(metrics)
  const started = Date.now()
  const counts = await request()
  const seconds = Math.floor((Date.now() - started) / 1_000) + 1
  const stalled = (await stalledSeconds(metrics)) - before
  return { ...counts, seconds, max: Math.floor(perSecond * (seconds + stalled)) }
}

/**
 * Sends from new addresses until a request is refused. A slow machine may need one more second for
 * the last requests. Each attempt is compared with its limit.
 */
export async function untilRefused<T extends Counts>(
  limit: Limit,
  request: (attempt: number) => Promise<T>,
): Promise<T & RequestCounts> {
  const started = performance.now()
  for (let attempt = 1; ; attempt++) {
    const said = await query(limit, () => request(attempt))
    const isDecided = said.served > said.max || said.served < said.sent
    if (isDecided || attempt === MAX_TRIES || performance.now() - started > HANGS_MS) return said
  }
}

/**
 * Whether the points of one second are served, a further request is refused, and the maximum holds.
 */
export const isLimitedTo = (perSecond: number, { sent, served, max }: RequestCounts): boolean =>
  served >= perSecond && served < sent && served <= max
export const rateText = ({ sent, served, max, seconds }: RequestCounts): string =>
  `${served} of ${sent} served, at most ${max} may be, in ${seconds} s`

export const NOTHING: Counts = { sent: 0, served: 0 }
export const plus = (...all: readonly Counts[]): Counts =>
  all.reduce((a, b) => ({ sent: a.sent + b.sent, served: a.served + b.served }), NOTHING)

/**
 * Sums the seconds in which the front threads stood still, because a limiter returns the points of
 * these seconds.
 */
async function stalledSeconds(metrics: readonly string[]): Promise<number> {
  const all = await Promise.all(metrics.map((url) => readMetrics(url)))
  return all
    .map((one) => sumOfMetrics(one, /^flashnode_front_stalled_seconds_total(\{|$)/))
    .reduce((sum, seconds) => sum + seconds, 0)
}
