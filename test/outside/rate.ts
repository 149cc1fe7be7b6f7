/**
 * A rate limit seen from outside. A second of an address begins with its first request. Requests
 * that take N full seconds touch N + 1 of these seconds at most, and no more than their points is
 * served, however slow the client and the node are.
 */

import { HANGS_MS } from '../kit/checks.ts'

/** Requests, each of one point. */
export type Counts = { readonly sent: number; readonly served: number }
export type Asked = Counts & {
  /** Seconds of the limiter that the requests may have touched. */
  readonly seconds: number
  /** Points of these seconds, and those that a node gave back after it stood still. */
  readonly most: number
}
export type Limit = {
  readonly perSecond: number
  /** The metrics of each node. */
  readonly metrics: readonly string[]
}

/** Each attempt has an address of its own, which a byte numbers. */
const MOST_TRIES = 250

/** @param ask asks as somebody who has not asked before @returns the counts and their bound */
export async function asked<T extends Counts>(
  { perSecond, metrics }: Limit,
  ask: () => Promise<T>,
): Promise<T & Asked> {
  const before = await stalledSeconds(metrics)
  const begun = Date.now()
  const counts = await ask()
  const seconds = Math.floor((Date.now() - begun) / 1_000) + 1
  const stalled = (await stalledSeconds(metrics)) - before
  return { ...counts, seconds, most: Math.floor(perSecond * (seconds + stalled)) }
}

/**
 * Asks as somebody new until a request is refused. A slow machine may need a second more for the
 * last of the requests; the answers are held against the bound in each attempt.
 */
export async function untilRefused<T extends Counts>(
  limit: Limit,
  ask: (attempt: number) => Promise<T>,
): Promise<T & Asked> {
  const begun = performance.now()
  for (let attempt = 1; ; attempt++) {
    const said = await asked(limit, () => ask(attempt))
    const isDecided = said.served > said.most || said.served < said.sent
    if (isDecided || attempt === MOST_TRIES || performance.now() - begun > HANGS_MS) return said
  }
}

/** The points of one second are served, a request beyond is refused, and the bound holds. */
export const isLimitedTo = (perSecond: number, { sent, served, most }: Asked): boolean =>
  served >= perSecond && served < sent && served <= most
export const rateText = ({ sent, served, most, seconds }: Asked): string =>
  `${served} of ${sent} served, at most ${most} may be, in ${seconds} s`

export const NOTHING: Counts = { sent: 0, served: 0 }
export const plus = (...all: readonly Counts[]): Counts =>
  all.reduce((a, b) => ({ sent: a.sent + b.sent, served: a.served + b.served }), NOTHING)

/** A limiter gives the seconds back for which its node stood still. All front threads are counted. */
async function stalledSeconds(metrics: readonly string[]): Promise<number> {
  const texts = await Promise.all(metrics.map(async (url) => (await fetch(url)).text()))
  return texts
    .flatMap((text) => [
      ...text.matchAll(/^flashnode_front_stalled_seconds_total(?:\{.*\})? (\S+)$/gm),
    ])
    .reduce((sum, [, seconds]) => sum + Number(seconds), 0)
}
