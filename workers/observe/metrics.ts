/**
 * Prometheus metrics. Labels have few values, all of them ours: names of known methods, queue
 * classes, error codes of the node.
 */
import type { LedgerStats } from '../../engine/storage/ledger/ledger.ts'
import { OWN_CODES } from '../../rpc/core/errors.ts'
import type { StateMode } from '../../rpc/core/ports.ts'
import type { FromWriter } from '../thread/messages.ts'
import {
  addFrontGauges,
  addMode,
  addNodeGauges,
  type FrontSources,
  type MetricSources,
} from './gauges.ts'
import { createLedgerMetrics } from './ledger-metrics.ts'
import { Counter, collectLater, Gauge, Histogram, Registry } from './prometheus.ts'
import { createTallies, type Tally, type TallyMetric } from './tally.ts'

/** A call that a worker of the pool has answered. */
type FinishedCall = {
  readonly queueClass: string
  readonly queuedMs: number
  readonly runMs: number
}

/** Metrics of the feeds that the node follows, by their number. */
export interface FeedMetrics {
  count(feed: number, what: string, by: number): void
  /** Counts frames that were refused because of this field. */
  refused(feed: number, field: string, by: number): void
  /** Sets the values that the feed's thread measures. */
  values(feed: number, values: Readonly<Record<string, number>>): void
}

export interface Metrics {
  call(method: string, ms: number, code: number | undefined): void
  /** Counts the calls that the limiter refused. */
  refused(calls: number): void
  /** Adds milliseconds in which the front was stalled. */
  stalled(ms: number): void
  job(job: FinishedCall): void
  published(message: Extract<FromWriter, { readonly type: 'published' }>): void
  /** Records the delay of a flashblock that was sent after it was due. */
  late(ms: number): void
  count(what: string, by: number): void
  /** Sets values that a thread measures. */
  gauges(values: Readonly<Record<string, number>>): void
  /** Updates the counts of promises and their outcomes. */
  ledger(stats: LedgerStats): void
  readonly feed: FeedMetrics
  readonly contentType: string
  text(): Promise<string>
  /** Reads the values of one metric; empty when the name is unknown. */
  read(name: string): Promise<readonly MetricValue[]>
}

/**
 * `part` is the suffix that prom-client gives to a histogram's buckets, sum and count, else empty.
 */
export type MetricValue = {
  readonly part: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const CALL_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const PUBLISH_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1]
/** Maximum number of names from other threads; further names are dropped. */
const MAX_NAMES = 128

/**
 * Creates the metrics of the node.
 * @param now monotonic milliseconds
 */
export function createMetrics(
  sources: Omit<MetricSources, 'promises' | 'ageMs'>,
  now: () => number,
  { mode, isGuest, others }: MetricsAbout = {},
): Metrics {
  const registry = new Registry()
  const withProcess = isGuest === true ? () => registry : collectLater(registry)
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
      const own = withProcess().metrics()
      return mergedText([await own, ...((await others?.texts()) ?? [])])
    },
    async read(name) {
      const own = await readMetric(withProcess(), name)
      return [...own, ...((await others?.read(name)) ?? [])]
    },
  }
}

/** Creates the metrics of one front thread and its pool, labelled with its number. */
export function createFrontThreadMetrics(sources: FrontSources, frontThread: number): FrontMetrics {
  const registry = new Registry()
  registry.setDefaultLabels({ cell: String(frontThread) })
  const calls = createCallMetrics(registry)
  addFrontGauges(registry, sources)
  return {
    ...calls,
    text: () => registry.metrics(),
    async read(name) {
      const values = await readMetric(registry, name)
      return values.map((one) => ({ ...one, labels: { ...one.labels, cell: String(frontThread) } }))
    },
  }
}
export type FrontMetrics = CallMetrics & Pick<Metrics, 'text' | 'read'>

export type MetricsAbout = {
  /** Mode of the state, for a node that follows. */
  readonly mode?: StateMode | undefined
  /** The process belongs to another program and is not measured. */
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

function createCallMetrics(registry: Registry): CallMetrics {
  const registers = [registry]
  /** `results` counts since the metrics were last read. */
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
    help: 'time in which the event loop of the front was blocked, for a quarter of a second or longer',
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
    job({ queueClass, queuedMs, runMs }) {
      queued.of(queueClass).observe(queuedMs / 1_000)
      ran.of(queueClass).observe(runMs / 1_000)
    },
  }
}

type ChainMetrics = Pick<Metrics, 'published' | 'late' | 'count' | 'gauges'> & {
  /** Milliseconds since the newest publish. */
  readonly ageMs: () => number
}

function createChainMetrics(registry: Registry, now: () => number): ChainMetrics {
  const registers = [registry]
  const timing = (name: string, help: string) =>
    new Histogram({ name: `flashnode_${name}`, help, buckets: PUBLISH_SECONDS, registers })
  const late = timing(
    'flashblock_late_seconds',
    'delay of a flashblock after the time when it was due (dev)',
  )
  const publish = timing('publish_seconds', 'time from the arrival of a flashblock to its publish')
  const execute = timing('execute_seconds', 'time to execute one flashblock')
  const heads = new Gauge({
    name: 'flashnode_head',
    help: 'height of each head',
    labelNames: ['head'],
    registers,
  })
  const counted = new Counter({
    name: 'flashnode_chain_events_total',
    help: 'counts of the threads: verdicts on packets, mismatches, broken preconfirmations, reorgs',
    labelNames: ['event'],
    registers,
  })
  const values = new Gauge({
    name: 'flashnode_chain',
    help: 'measurements of the threads: leases, pages, persist lag',
    labelNames: ['value'],
    registers,
  })
  let publishedAt: number | undefined
  const isNameKnown = createNames()
  return {
    ageMs: () => (publishedAt === undefined ? 0 : now() - publishedAt),
    published(message) {
      publishedAt = now()
      // A publish may come without a flashblock.
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

/** Creates the metrics of feeds; field and event names are the node's own. */
function createFeedMetrics(registry: Registry): FeedMetrics {
  const registers = [registry]
  const counted = new Counter({
    name: 'flashnode_followed_feed_total',
    help: 'events of each feed that the node follows: frames, bytes, connections, time unread',
    labelNames: ['feed', 'event'],
    registers,
  })
  const refused = new Counter({
    name: 'flashnode_followed_feed_refused_total',
    help: 'refused frames, by the invalid field',
    labelNames: ['feed', 'field'],
    registers,
  })
  const values = new Gauge({
    name: 'flashnode_followed_feed',
    help: 'state of each feed that the node follows: whether it is connected, seconds of silence, frames and bytes that wait for the writer',
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
    name: `flashnode_${name}`,
    label,
    buckets: CALL_SECONDS,
    help: `${what}, by ${label}`,
  })
  registry.registerMetric(tallies as unknown as Histogram)
  return tallies
}

/** Limits the number of names from other threads. */
function createNames(): (name: string) => boolean {
  const known = new Set<string>()
  return (name) => {
    if (!known.has(name) && known.size >= MAX_NAMES) return false
    known.add(name)
    return true
  }
}

const HELP = '# HELP '

/**
 * Merges metrics into one text. Each metric's lines are grouped under the first text's help.
 * @param texts Prometheus texts whose lines differ by labels
 */
export function mergedText(texts: readonly string[]): string {
  const [first = ''] = texts
  if (texts.length < 2) return first
  const families = new Map<string, string>()
  for (const text of texts)
    for (const family of text.split(`\n${HELP}`)) {
      const body = family.startsWith(HELP) ? family.slice(HELP.length) : family
      const name = body.slice(0, body.indexOf(' '))
      const known = families.get(name)
      const samples = samplesOf(body)
      if (known === undefined) families.set(name, body.trimEnd())
      else if (samples !== '') families.set(name, `${known}\n${samples}`)
    }
  return [...families.values()].map((body) => `${HELP}${body}\n`).join('\n')
}

/** Returns the sample lines of a metric, without its help and type. */
const samplesOf = (body: string): string =>
  body
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .slice(1)
    .join('\n')
