/**
 * The promise ledger's counts as metrics. They are stored in the data directory, so they continue
 * over restarts.
 */
import { TIME_BOUNDS_MS } from '../../engine/storage/ledger/counts.ts'
import type { LedgerStats } from '../../engine/storage/ledger/ledger.ts'
import type { LedgerCounts, Times } from '../../engine/storage/ledger-types.ts'

export type LedgerMetrics = {
  /** Updates the counts; the persistence thread sends them once a second. */
  update(stats: LedgerStats): void
  /** Counts of promises; empty before the first update. */
  readonly promises: () => Readonly<Record<string, number>>
  /** The interface that prom-client's registry needs from a metric. */
  readonly times: {
    readonly name: string
    readonly help: string
    readonly type: 'histogram'
    readonly aggregator: 'sum'
    get(): Promise<object>
  }
}

const NAME = 'flashnode_promise_seconds'

export function createLedgerMetrics(): LedgerMetrics {
  let newest: LedgerStats | undefined
  const described = {
    name: NAME,
    help: 'time from the arrival of a transaction until it is visible (shown), and from then until its canonical block (sealed); across restarts',
    type: 'histogram',
    aggregator: 'sum',
  } as const
  return {
    update(stats) {
      newest = stats
    },
    promises: () => (newest === undefined ? {} : promisesOf(newest)),
    times: {
      ...described,
      async get() {
        const { taken, sealed } = newest?.counts ?? {}
        const values = [...valuesOf('shown', taken), ...valuesOf('sealed', sealed)]
        return { ...described, values }
      },
    },
  }
}

function promisesOf({ counts, bytes }: LedgerStats): Readonly<Record<string, number>> {
  const { flashblocks, promises, kept, reordered, dropped, unseen } = counts
  const { secondPayloads, equivocations }: LedgerCounts = counts
  return {
    flashblocks,
    promises,
    kept,
    reordered,
    dropped,
    unseen,
    open: promises - kept - reordered - dropped - unseen,
    second_payloads: secondPayloads,
    equivocations,
    bytes,
  }
}

function valuesOf(until: string, times: Times | undefined) {
  if (times === undefined) return []
  let total = 0
  const bars = times.buckets.map((count, at) => {
    total += count
    const bound = TIME_BOUNDS_MS[at]
    const le = bound === undefined ? '+Inf' : bound / 1_000
    return { metricName: `${NAME}_bucket`, labels: { le, until }, value: total }
  })
  return [
    ...bars,
    { metricName: `${NAME}_sum`, labels: { until }, value: times.sumMs / 1_000 },
    { metricName: `${NAME}_count`, labels: { until }, value: times.count },
  ]
}
