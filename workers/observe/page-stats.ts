/** Stats that the status page gets once a second, read from the metrics so that both agree. */

import { CODES } from '../../rpc/core/errors.ts'
import type { Counts, Histogram, Inside } from '../../rpc/page/messages.ts'
import type { Metrics, MetricValue } from './metrics.ts'

type Reading = Pick<Metrics, 'read'>

/** Reads the stats that a public endpoint may show. */
export async function readPageStats({ read }: Reading) {
  const [publish, execute, promise, promises, waiting] = await Promise.all([
    read('flashnode_publish_seconds'),
    read('flashnode_execute_seconds'),
    read('flashnode_promise_seconds'),
    read('flashnode_promises'),
    read('flashnode_transaction_pool'),
  ])
  const until = histograms(promise, 'until')
  return {
    publish: histogram(publish),
    execute: histogram(execute),
    shown: until['shown'] ?? NOTHING,
    sealed: until['sealed'] ?? NOTHING,
    promises: by(promises, 'what'),
    waiting: by(waiting, 'what'),
  }
}

/**
 * Reads the stats of the admin port.
 * @param details details of /readyz
 */
export async function readInside(
  { read }: Reading,
  details: Readonly<Record<string, unknown>>,
): Promise<Inside> {
  const named = async (name: string, label = 'what') => by(await read(`flashnode_${name}`), label)
  const each = async (name: string, label: string) =>
    histograms(await read(`flashnode_${name}`), label)
  const codes = await read('flashnode_rpc_calls_total')
  const failed = codes.filter(({ labels }) => labels['code'] !== '0')
  return {
    calls: await each('rpc_seconds', 'method'),
    errors: by(failed, 'method'),
    codes: by(failed, 'code'),
    boundCodes: { limited: CODES.limited, timeout: CODES.timeout },
    queuedFor: await each('pool_queue_seconds', 'lane'),
    ranFor: await each('pool_run_seconds', 'lane'),
    queued: await named('pool_queued'),
    threads: {
      all: only(await read('flashnode_pool_threads')),
      busy: only(await read('flashnode_pool_busy')),
      terminated: only(await read('flashnode_pool_terminated')),
      replaced: only(await read('flashnode_pool_replaced')),
    },
    front: await named('front'),
    holds: await named('receipt_holds'),
    feed: await named('feed'),
    refusedPoints: only(await read('flashnode_rate_limited_total')),
    mishaps: await named('mishaps'),
    events: await named('chain_events_total', 'event'),
    residentBytes: only(await read('process_resident_memory_bytes')),
    heaps: await named('thread_bytes', 'thread'),
    cpuSeconds:
      only(await read('process_cpu_user_seconds_total')) +
      only(await read('process_cpu_system_seconds_total')),
    upstreams: rows(details['upstreams']),
    feeds: rows(details['feeds']),
  }
}

const NOTHING: Histogram = { bounds: [], counts: [], count: 0, sum: 0 }

/** Sums the values of all threads. */
const only = (values: readonly MetricValue[]): number =>
  values.reduce((sum, { value }) => sum + value, 0)

const rows = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  Array.isArray(value) ? value : []

/** Sums values by one label over the other labels. */
function by(values: readonly MetricValue[], label: string): Counts {
  const sums: Record<string, number> = {}
  for (const { labels, value } of values) {
    const name = labels[label] ?? ''
    sums[name] = (sums[name] ?? 0) + value
  }
  return sums
}

const histogram = (values: readonly MetricValue[]): Histogram =>
  histograms(values, '')[''] ?? NOTHING

/** Adds a bucket's value, because several threads have the same buckets. */
function addBar({ bounds, counts }: Growing, bound: number, value: number): void {
  const at = bounds.indexOf(bound)
  if (at >= 0) counts[at]! += value
  else {
    bounds.push(bound)
    counts.push(value)
  }
}

type Growing = { bounds: number[]; counts: number[]; count: number; sum: number }

function histograms(
  values: readonly MetricValue[],
  label: string,
): Readonly<Record<string, Histogram>> {
  const found: Record<string, Growing> = {}
  for (const { part, labels, value } of values) {
    const name = labels[label] ?? ''
    found[name] ??= { bounds: [], counts: [], count: 0, sum: 0 }
    const one = found[name]
    const { le } = labels
    if (part === '_sum') one.sum += value
    else if (part === '_count') one.count += value
    else if (le !== undefined && le !== '+Inf') addBar(one, Number(le), value)
  }
  return found
}
