/** The figures of `flashblocks_stats`. */
import { quantile, TIME_BOUNDS_MS } from '../../../engine/storage/ledger/counts.ts'
import type { LedgerCounts, Times } from '../../../engine/storage/ledger-types.ts'
import {
  type Codec,
  kindOf,
  type PlainCodec,
  refine,
  SchemaError,
  strictObject,
} from '../../json/schema.ts'
import type { PromiseService } from '../../seam/ports.ts'

export const DEFAULT_WINDOW_SECONDS = 3_600
/** So many hours are kept, and one that has begun. */
const MOST_SECONDS = 30 * 24 * 3_600

const seconds: PlainCodec<number> = {
  decode(wire) {
    if (typeof wire !== 'number') throw new SchemaError(kindOf(wire), 'uint64')
    if (!Number.isSafeInteger(wire) || wire < 1 || wire > MOST_SECONDS)
      throw new SchemaError(`must be whole seconds from 1 to ${MOST_SECONDS}, got ${wire}`)
    return wire
  },
  encode: (value) => value,
  schema: {
    title: `Whole seconds from 1 to ${MOST_SECONDS}`,
    type: 'integer',
    minimum: 1,
    maximum: MOST_SECONDS,
  },
}

/** `{"window": seconds}` */
export const window: Codec<number> = refine(
  strictObject('Window', { window: seconds }),
  (value) => value.window ?? DEFAULT_WINDOW_SECONDS,
  (value) => ({ window: value }),
)

/** @throws {DatabaseError} */
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

/** Shares of what was decided on a block that is here; null where nothing was. */
function ratesOf({ kept, reordered, dropped }: LedgerCounts) {
  const decided = kept + reordered + dropped
  if (decided === 0) return null
  return { kept: kept / decided, reordered: reordered / decided, dropped: dropped / decided }
}

/** Milliseconds. A quantile is the bound of its bucket: null above the last one, and where there is nothing. */
function timesJson(times: Times) {
  const { count, sumMs, buckets } = times
  const at = (share: number) => quantile(times, share) ?? null
  return {
    count,
    mean: count === 0 ? null : Math.round((10 * sumMs) / count) / 10,
    ...{ p50: at(0.5), p90: at(0.9), p99: at(0.99) },
    buckets: buckets.map((of, bucket) => ({ atMost: TIME_BOUNDS_MS[bucket] ?? null, count: of })),
  }
}
