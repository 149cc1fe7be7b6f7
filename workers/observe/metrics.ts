/** Prometheus metrics. Labels have few values, all of them ours: method names of the tables, lanes, error codes we make. */
import type { LedgerStats } from '../../engine/storage/ledger/ledger.ts'
import { OWN_CODES } from '../../rpc/seam/errors.ts'
import type { StateMode } from '../../rpc/seam/ports.ts'
import type { Heap } from '../thread/heaps.ts'
import type { FromWriter } from '../thread/messages.ts'
import { createLedgerMetrics, type LedgerMetrics } from './ledger-metrics.ts'
import { Counter, collectLater, Gauge, Histogram, Registry } from './prometheus.ts'
import { createTallies, type Tally, type TallyMetric } from './tally.ts'

/** Of --verify-sample; mismatches are those of both. */
export type VerifiedCounts = {
  readonly verified: number
  readonly verifiedBlocks: number
  readonly mismatches: number
}

/** Looked at when somebody asks for the metrics. */
export type MetricSources = {
  readonly pool: () => {
    readonly threads: number
    readonly busy: number
    readonly queued: Readonly<Record<string, number>>
    readonly terminated: number
    readonly replaced: number
    readonly replays: Readonly<Record<string, number>>
  }
  readonly keptLogs: () => Readonly<Record<string, number>>
  readonly near: () => Readonly<Record<string, number>>
  readonly holds: () => Readonly<Record<string, number>>
  readonly feed: () => Readonly<Record<string, number>>
  readonly txpool: () => Readonly<Record<string, number>>
  readonly front: () => Readonly<Record<string, number>>
  /** What the other engine has run too. */
  readonly verified: () => VerifiedCounts
  /** What should not happen, by kind. */
  readonly mishaps: () => Readonly<Record<string, number>>
  readonly heaps: () => Promise<readonly Heap[]>
}

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

/**
 * @param now monotonic milliseconds
 * @param about `mode`: of the state of a node that follows. `isGuest`: the process is somebody else's, and is not measured
 */
export function createMetrics(
  sources: MetricSources,
  now: () => number,
  { mode, isGuest }: { mode?: StateMode | undefined; isGuest?: boolean | undefined } = {},
): Metrics {
  const registry = new Registry()
  const whole = isGuest === true ? () => registry : collectLater(registry)
  const calls = createCallMetrics(registry)
  const { ageMs, ...chain } = createChainMetrics(registry, now)
  const ledger = createLedgerMetrics()
  registry.registerMetric(ledger.times as unknown as Histogram)
  addGauges(registry, { ...sources, promises: ledger.promises }, ageMs)
  addHeaps(registry, sources.heaps)
  if (mode !== undefined) addMode(registry, mode)
  return {
    ...calls,
    ...chain,
    feed: createFeedMetrics(registry),
    ledger: ledger.update,
    contentType: registry.contentType,
    text: () => whole().metrics(),
    read: (name) => readMetric(whole(), name),
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

function addGauges(
  registry: Registry,
  sources: MetricSources & Pick<LedgerMetrics, 'promises'>,
  ageMs: () => number,
): void {
  const gauge = (
    name: string,
    help: string,
    read: () => number | Readonly<Record<string, number>>,
  ) =>
    new Gauge({
      name: `flashnode_${name}`,
      help,
      labelNames: typeof read() === 'number' ? [] : ['what'],
      registers: [registry],
      collect() {
        const value = read()
        if (typeof value === 'number') this.set(value)
        else for (const [what, number] of Object.entries(value)) this.set({ what }, number)
      },
    })
  gauge('flashblock_age_seconds', 'since the newest publish', () => ageMs() / 1_000)
  gauge('pool_threads', 'workers', () => sources.pool().threads)
  gauge('pool_busy', 'workers with a task', () => sources.pool().busy)
  gauge('pool_queued', 'calls that wait for a worker, by lane', () => sources.pool().queued)
  gauge(
    'pool_terminated',
    'workers ended after a deadline or for their memory',
    () => sources.pool().terminated,
  )
  gauge('pool_replaced', 'workers that ended and were replaced', () => sources.pool().replaced)
  gauge(
    'pool_replays',
    'traces since the start, by whether their worker had kept what it had executed of their block',
    () => sources.pool().replays,
  )
  gauge(
    'pool_kept_logs',
    'logs of folded blocks that the workers keep: blocks, bytes, and how often one was there or not',
    sources.keptLogs,
  )
  gauge(
    'pool_near',
    'short calls since the start that the front has answered itself, or begun and passed on to a worker',
    sources.near,
  )
  gauge(
    'verified_calls',
    'calls that both engines have run, since the start',
    () => sources.verified().verified,
  )
  gauge(
    'verified_blocks',
    'canonical blocks that both engines have executed, since the start',
    () => sources.verified().verifiedBlocks,
  )
  gauge('verify_mismatches', 'calls and blocks that differed', () => sources.verified().mismatches)
  gauge('mishaps', 'what should not happen, since the start, as the log has it', sources.mishaps)
  gauge(
    'promises',
    'of the ledger, over restarts: flashblocks, promises in them, and what became of these',
    sources.promises,
  )
  gauge('receipt_holds', 'receipt holds since the start, by their end', sources.holds)
  gauge('feed', 'subscribers of /feed and what happened to them', sources.feed)
  gauge('transaction_pool', 'transactions in the txpool', sources.txpool)
  gauge('front', 'requests in flight, WebSockets, filters, subscriptions', sources.front)
}

/** One of them is 1, so that an alert can name the mode that must not be. */
function addMode(registry: Registry, mode: StateMode): void {
  new Gauge({
    name: 'flashnode_state',
    help: 'what is known of the state: whole, proven or trusted',
    labelNames: ['mode'],
    registers: [registry],
  }).set({ mode }, 1)
}

function addHeaps(registry: Registry, read: MetricSources['heaps']): void {
  new Gauge({
    name: 'flashnode_thread_bytes',
    help: 'memory of each thread beside the main one: its heap, and what it owns outside',
    labelNames: ['thread', 'memory'],
    registers: [registry],
    async collect() {
      const heaps = await read()
      this.reset()
      for (const { thread, usedBytes, externalBytes } of heaps) {
        this.set({ thread, memory: 'heap' }, usedBytes)
        this.set({ thread, memory: 'external' }, externalBytes)
      }
    },
  })
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
