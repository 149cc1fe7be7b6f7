/** Stats of `flashblocks_stats`. */
import { quantile, TIME_BOUNDS_MS } from '../../../engine/storage/ledger/counts.ts'
import type { LedgerCounts, Times } from '../../../engine/storage/ledger-types.ts'
import type { PromiseService } from '../../core/ports.ts'
import {
  type Codec,
  kindOf,
  type PlainCodec,
  refine,
  SchemaError,
  strictObject,
} from '../../json/schema.ts'

export const DEFAULT_WINDOW_SECONDS = 3_600
/** The ledger covers this time in full hours, and the current hour. */
const MAX_SECONDS = 30 * 24 * 3_600

const seconds: PlainCodec<number> = {
  decode(wire) {
    if (typeof wire !== 'number') throw new SchemaError(kindOf(wire), 'uint64')
    if (!Number.isSafeInteger(wire) || wire < 1 || wire > MAX_SECONDS)
      throw new SchemaError(`must be whole seconds from 1 to ${MAX_SECONDS}, got ${wire}`)
    return wire
  },
  encode: (value) => value,
  schema: {
    title: `Whole seconds from 1 to ${MAX_SECONDS}`,
    type: 'integer',
    minimum: 1,
    maximum: MAX_SECONDS,
  },
}

/** Codec of `{"window": seconds}`. */
export const window: Codec<number> = refine(
  strictObject('Window', { window: seconds }),
  (value) => value.window ?? DEFAULT_WINDOW_SECONDS,
  (value) => ({ window: value }),
)

/**
 * Builds the stats of the last `seconds`.
 * @throws {DatabaseError}
 */
export function statsOf(promises: PromiseService, seconds: number) {
  const { fromMs, counts } = promises.counts(seconds * 1_000)
  const { flashblocks, promises: promised, secondPayloads, equivocations } = counts
  const { kept, reordered, dropped, unseen } = counts
  return {
    window: seconds,
    from: fromMs,
    to: promises.nowMs(),
    flashblocks,
    promises: promised,
    fates: { kept, reordered, dropped, unseen },
    rates: ratesOf(counts),
    secondPayloads,
    equivocations,
    latency: timesJson(counts.taken),
    sealedAfter: timesJson(counts.sealed),
  }
}

/** Shares of the outcomes that a local block decided; null without any. */
function ratesOf({ kept, reordered, dropped }: LedgerCounts) {
  const decided = kept + reordered + dropped
  if (decided === 0) return null
  return { kept: kept / decided, reordered: reordered / decided, dropped: dropped / decided }
}

/**
 * Milliseconds. A quantile is the bound of its bucket. It is null above the last bound, and without
 * values.
 */
function timesJson(times: Times) {
  const { count, sumMs, buckets } = times
  const at = (share: number) => quantile(times, share) ?? null
  return {
    count,
    mean: count === 0 ? null : Math.round((10 * sumMs) / count) / 10,
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    buckets: buckets.map((of, bucket) => ({ atMost: TIME_BOUNDS_MS[bucket] ?? null, count: of })),
  }
}
