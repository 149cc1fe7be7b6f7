/** Computations on cumulative histograms: differences, quantiles, bars. */
import type { Histogram } from './messages.ts'

/**
 * Returns the values counted after `before`, or all values when there is no `before` or the node
 * has restarted.
 */
export function since(now: Histogram, before: Histogram | undefined): Histogram {
  if (before === undefined || before.count > now.count) return now
  const earlier = new Map(before.bounds.map((bound, at) => [bound, before.counts[at] ?? 0]))
  return {
    bounds: now.bounds,
    counts: now.counts.map((value, at) => value - (earlier.get(now.bounds[at]!) ?? 0)),
    count: now.count - before.count,
    sum: now.sum - before.sum,
  }
}

/**
 * Returns a quantile in milliseconds, interpolated within its bucket. It is undefined without
 * values, and infinite above the last bound.
 */
export function quantile({ bounds, counts, count }: Histogram, share: number): number | undefined {
  if (count === 0) return undefined
  const wanted = count * share
  const at = counts.findIndex((value) => value >= wanted)
  if (at < 0) return Number.POSITIVE_INFINITY
  const [from, to] = [at === 0 ? 0 : bounds[at - 1]!, bounds[at]!]
  const below = at === 0 ? 0 : counts[at - 1]!
  const inBar = counts[at]! - below
  return 1_000 * (from + (inBar === 0 ? 0 : ((to - from) * (wanted - below)) / inBar))
}

/** Returns the mean in milliseconds. */
export const mean = ({ sum, count }: Histogram): number | undefined =>
  count === 0 ? undefined : (1_000 * sum) / count

export type Bar = { readonly from: number; readonly to: number | undefined; readonly count: number }
/** Returns the bars, in milliseconds; the last one has no upper bound. */
export function bars({ bounds, counts, count }: Histogram): readonly Bar[] {
  const found = bounds.map((bound, at) => ({
    from: at === 0 ? 0 : 1_000 * bounds[at - 1]!,
    to: 1_000 * bound,
    count: counts[at]! - (at === 0 ? 0 : counts[at - 1]!),
  }))
  const above = count - (counts.at(-1) ?? 0)
  return [...found, { from: 1_000 * (bounds.at(-1) ?? 0), to: undefined, count: above }]
}
