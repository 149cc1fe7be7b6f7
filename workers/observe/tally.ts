/**
 * Histograms with one label, for every call. prom-client hashes the label on each observation,
 * which takes 1 µs; here callers cache the tally.
 */

export type Tally = { observe(seconds: number): void }

/** The interface that prom-client's registry needs from a metric. */
export type TallyMetric = {
  readonly name: string
  readonly help: string
  readonly type: 'histogram'
  readonly aggregator: 'sum'
  get(): Promise<object>
  /** Returns the tally for a label value; values are few, and all of them ours. */
  of(value: string): Tally
}

export function createTallies(options: {
  readonly name: string
  readonly help: string
  readonly label: string
  /** Upper bounds in seconds, ascending. */
  readonly buckets: readonly number[]
}): TallyMetric {
  const { name, help, label, buckets } = options
  const tallies = new Map<string, Counts>()
  const described = { name, help, type: 'histogram', aggregator: 'sum' } as const

  function valuesOf(value: string, { counts, sum }: Counts) {
    const labels = { [label]: value }
    let total = 0
    const bars = [...buckets, '+Inf'].map((le, at) => {
      total += counts[at]!
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: total }
    })
    return [
      ...bars,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: total },
    ]
  }

  return {
    ...described,
    async get() {
      return { ...described, values: [...tallies].flatMap((each) => valuesOf(...each)) }
    },
    of(value) {
      let tally = tallies.get(value)
      if (tally === undefined) {
        tally = new Counts(buckets)
        tallies.set(value, tally)
      }
      return tally
    },
  }
}

class Counts implements Tally {
  readonly #buckets: readonly number[]
  /** Counts by bucket; the last one is beyond all bounds. */
  readonly counts: Float64Array
  sum = 0

  constructor(buckets: readonly number[]) {
    this.#buckets = buckets
    this.counts = new Float64Array(buckets.length + 1)
  }

  observe(seconds: number): void {
    let at = 0
    while (at < this.#buckets.length && seconds > this.#buckets[at]!) at++
    this.counts[at]!++
    this.sum += seconds
  }
}
