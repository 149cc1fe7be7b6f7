/** Prometheus metrics. Labels have few values, all of them ours: method names of the tables, lanes, error codes we make. */
import type { LedgerStats } from '../../engine/storage/ledger/ledger.ts'
import { OWN_CODES } from '../../rpc/seam/errors.ts'
import type { StateMode } from '../../rpc/seam/ports.ts'
import type { FromWriter } from '../thread/messages.ts'
import {
  addFrontGauges,
  addMode,
  addNodeGauges,
  type FrontSources,
  type MetricSources,
} from './gauges.ts'
import { createLedgerMetrics } from './ledger-metrics.ts'
import { mergedText } from './merged-text.ts'
import { Counter, collectLater, Gauge, Histogram, Registry } from './prometheus.ts'
import { createTallies, type Tally, type TallyMetric } from './tally.ts'

/** A call that a worker of the pool has answered. */
type AnsweredCall = { readonly lane: string; readonly queuedMs: number; readonly runMs: number }

/** Of the feeds that are followed, by their number. */
export interface FeedMetrics {
  /** Something that happened to it so often. */
  count(feed: number, what: string, by: number): void
  /** Frames that were refused for this field. */
  refused(feed: number, field: string, by: number): void
  /** What its thread measures. */
  values(feed: number, values: Readonly<Record<string, number>>): void
}

export interface Metrics {
  call(method: string, ms: number, code: number | undefined): void
  /** Calls that the limiter did not let through. */
  refused(calls: number): void
  /** The front stood still for so many milliseconds. */
  stalled(ms: number): void
  job(job: AnsweredCall): void
  published(message: Extract<FromWriter, { readonly type: 'published' }>): void
  /** A flashblock left after it was due. */
  late(ms: number): void
  /** Something that a thread counts. */
  count(what: string, by: number): void
  /** What a thread measures. */
  gauges(values: Readonly<Record<string, number>>): void
  /** What flashblocks promised, and what became of it. */
  ledger(stats: LedgerStats): void
  readonly feed: FeedMetrics
  readonly contentType: string
  text(): Promise<string>
  /** What one metric has now, by its name; empty: there is none. */
  read(name: string): Promise<readonly MetricValue[]>
}

/** `part`: the end of the name that prom-client gives to a histogram's bars, sum and count, else empty. */
export type MetricValue = {
  readonly part: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const CALL_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const PUBLISH_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1]
/** Names that other threads may bring; a new one beyond is dropped. */
const MAX_NAMES = 128

/** @param now monotonic milliseconds */
export function createMetrics(
  sources: Omit<MetricSources, 'promises' | 'ageMs'>,
  now: () => number,
  { mode, isGuest, others }: MetricsAbout = {},
): Metrics {
  const registry = new Registry()
  const whole = isGuest === true ? () => registry : collectLater(registry)
  const calls = createCallMetrics(registry)
  const { ageMs, ...chain } = createChainMetrics(registry, now)
  const ledger = createLedgerMetrics()
  registry.registerMetric(ledger.times as unknown as Histogram)
  const all = { ...sources, promises: ledger.promises, ageMs }
  addFrontGauges(registry, all)
  addNodeGauges(registry, all)
  if (mode !== undefined) addMode(registry, mode)
  return {
    ...calls,
    ...chain,
    feed: createFeedMetrics(registry),
    ledger: ledger.update,
    contentType: registry.contentType,
    async text() {
      const own = whole().metrics()
      return mergedText([await own, ...((await others?.texts()) ?? [])])
    },
    async read(name) {
      const own = await readMetric(whole(), name)
      return [...own, ...((await others?.read(name)) ?? [])]
    },
  }
}

/** Of a cell: what its front and its pool do, each with its number. */
export function createCellMetrics(sources: FrontSources, cell: number): FrontMetrics {
  const registry = new Registry()
  registry.setDefaultLabels({ cell: String(cell) })
  const calls = createCallMetrics(registry)
  addFrontGauges(registry, sources)
  return {
    ...calls,
    text: () => registry.metrics(),
    async read(name) {
      const values = await readMetric(registry, name)
      return values.map((one) => ({ ...one, labels: { ...one.labels, cell: String(cell) } }))
    },
  }
}
export type FrontMetrics = CallMetrics & Pick<Metrics, 'text' | 'read'>

export type MetricsAbout = {
  /** Of the state of a node that follows. */
  readonly mode?: StateMode | undefined
  /** The process is somebody else's, and is not measured. */
  readonly isGuest?: boolean | undefined
  /** Fronts in other threads. */
  readonly others?: {
    readonly texts: () => Promise<readonly string[]>
    readonly read: Metrics['read']
  }
}

async function readMetric(registry: Registry, name: string): Promise<readonly MetricValue[]> {
  const { values } = (await registry.getSingleMetric(name)?.get()) ?? { values: [] }
  return values.map(({ value, labels, ...rest }) => {
    const full =
      'metricName' in rest && typeof rest.metricName === 'string' ? rest.metricName : name
    const texts = Object.entries(labels).map(([label, text]) => [label, String(text)])
    return { part: full.slice(name.length), labels: Object.fromEntries(texts), value }
  })
}

type CallMetrics = Omit<
  Metrics,
  keyof ChainMetrics | 'feed' | 'ledger' | 'contentType' | 'text' | 'read'
>

/** Of what clients ask. */
function createCallMetrics(registry: Registry): CallMetrics {
  const registers = [registry]
  /** `results`: since the metrics were asked for. */
  const methods = new Map<string, { readonly seconds: Tally; results: number }>()
  const calls = new Counter({
    name: 'flashnode_rpc_calls_total',
    help: 'JSON-RPC calls by method and error code (0: a result)',
    labelNames: ['method', 'code'],
    registers,
    collect() {
      for (const [method, one] of methods) {
        this.inc({ method, code: '0' }, one.results)
        one.results = 0
      }
    },
  })
  const refused = new Counter({
    name: 'flashnode_rate_limited_total',
    help: 'points refused by the rate limit',
    registers,
  })
  const stalled = new Counter({
    name: 'flashnode_front_stalled_seconds_total',
    help: 'time in which the front stood still, a quarter of a second or longer at a time',
    registers,
  })
  const seconds = tallied(registry, 'rpc_seconds', 'method', 'time to answer a call')
  const queued = tallied(registry, 'pool_queue_seconds', 'lane', 'time a call waited for a worker')
  const ran = tallied(registry, 'pool_run_seconds', 'lane', 'processor time of a call in a worker')
  const ofMethod = (method: string) => {
    const known = methods.get(method) ?? { seconds: seconds.of(method), results: 0 }
    methods.set(method, known)
    return known
  }
  return {
    call(method, ms, code) {
      const known = methods.get(method) ?? ofMethod(method)
      if (code === undefined) known.results++
      else calls.inc({ method, code: OWN_CODES.has(code) ? String(code) : 'other' })
      known.seconds.observe(ms / 1_000)
    },
    refused: (number) => refused.inc(number),
    stalled: (ms) => stalled.inc(ms / 1_000),
    job({ lane, queuedMs, runMs }) {
      queued.of(lane).observe(queuedMs / 1_000)
      ran.of(lane).observe(runMs / 1_000)
    },
  }
}

type ChainMetrics = Pick<Metrics, 'published' | 'late' | 'count' | 'gauges'> & {
  /** Since the newest publish. */
  readonly ageMs: () => number
}

/** Of what the threads that move the chain say. */
function createChainMetrics(registry: Registry, now: () => number): ChainMetrics {
  const registers = [registry]
  const timing = (name: string, help: string) =>
    new Histogram({ name: `flashnode_${name}`, help, buckets: PUBLISH_SECONDS, registers })
  const late = timing(
    'flashblock_late_seconds',
    'from when a flashblock was due to when it was sent (dev)',
  )
  const publish = timing('publish_seconds', 'from the arrival of a flashblock to its publish')
  const execute = timing('execute_seconds', 'execution of one flashblock')
  const heads = new Gauge({
    name: 'flashnode_head',
    help: 'height of each head',
    labelNames: ['head'],
    registers,
  })
  const counted = new Counter({
    name: 'flashnode_chain_events_total',
    help: 'what the threads count: verdicts on packets, mismatches, broken preconfirmations, reorgs',
    labelNames: ['event'],
    registers,
  })
  const values = new Gauge({
    name: 'flashnode_chain',
    help: 'what the threads measure: leases, pages, fold lag',
    labelNames: ['value'],
    registers,
  })
  let publishedAt: number | undefined
  const isNameKnown = createNames()
  return {
    ageMs: () => (publishedAt === undefined ? 0 : now() - publishedAt),
    published(message) {
      publishedAt = now()
      // Not every publish shows a flashblock.
      if (message.publishMs > 0) {
        publish.observe(message.publishMs / 1_000)
        execute.observe(message.executeMs / 1_000)
      }
      for (const head of ['canonical', 'complete', 'pending'] as const)
        heads.set({ head }, message[head])
    },
    late: (ms) => late.observe(ms / 1_000),
    count(what, by) {
      if (isNameKnown(what)) counted.inc({ event: what }, by)
    },
    gauges(all) {
      for (const [value, number] of Object.entries(all))
        if (isNameKnown(value)) values.set({ value }, number)
    },
  }
}

/** Fields and events are names of ours. */
function createFeedMetrics(registry: Registry): FeedMetrics {
  const registers = [registry]
  const counted = new Counter({
    name: 'flashnode_followed_feed_total',
    help: 'what happened to each feed that is followed: frames, bytes, connections, time unread',
    labelNames: ['feed', 'event'],
    registers,
  })
  const refused = new Counter({
    name: 'flashnode_followed_feed_refused_total',
    help: 'frames that were refused, by the field that is wrong',
    labelNames: ['feed', 'field'],
    registers,
  })
  const values = new Gauge({
    name: 'flashnode_followed_feed',
    help: 'of each feed that is followed: whether it is connected, seconds of silence, what the writer has not taken',
    labelNames: ['feed', 'value'],
    registers,
  })
  return {
    count: (feed, event, by) => counted.inc({ feed, event }, by),
    refused: (feed, field, by) => refused.inc({ feed, field }, by),
    values(feed, all) {
      for (const [value, number] of Object.entries(all)) values.set({ feed, value }, number)
    },
  }
}

function tallied(registry: Registry, name: string, label: string, what: string): TallyMetric {
  const tallies = createTallies({
    ...{ name: `flashnode_${name}`, label, buckets: CALL_SECONDS },
    help: `${what}, by ${label}`,
  })
  registry.registerMetric(tallies as unknown as Histogram)
  return tallies
}

/** Bounds the names that come from elsewhere. */
function createNames(): (name: string) => boolean {
  const known = new Set<string>()
  return (name) => {
    if (!known.has(name) && known.size >= MAX_NAMES) return false
    known.add(name)
    return true
  }
}
