/** Gauges that are read when metrics are requested: of a front and its pool, and of the node. */
import type { StateMode } from '../../rpc/core/ports.ts'
import type { Heap } from '../thread/heaps.ts'
import { Gauge, type Registry } from './prometheus.ts'

/** Counts of --verify-sample; mismatches include calls and blocks. */
export type VerifiedCounts = {
  readonly verified: number
  readonly verifiedBlocks: number
  readonly mismatches: number
}

export type FrontSources = {
  readonly pool: () => {
    readonly threads: number
    readonly busy: number
    readonly queued: Readonly<Record<string, number>>
    readonly terminated: number
    readonly replaced: number
    readonly replays: Readonly<Record<string, number>>
  }
  readonly logRowsCache: () => Readonly<Record<string, number>>
  readonly holds: () => Readonly<Record<string, number>>
  readonly feed: () => Readonly<Record<string, number>>
  readonly front: () => Readonly<Record<string, number>>
  /** Counts of what the other engine has verified. */
  readonly verified: () => VerifiedCounts
  readonly heaps: () => Promise<readonly Heap[]>
}

export type MetricSources = FrontSources & {
  readonly txpool: () => Readonly<Record<string, number>>
  /** Incidents by kind. */
  readonly incidents: () => Readonly<Record<string, number>>
  /** Counts of the replicas that copy this node. */
  readonly bootstrap: () => Readonly<Record<string, number>>
  /** Counts of the promise ledger. */
  readonly promises: () => Readonly<Record<string, number>>
  /** Milliseconds since the newest publish. */
  readonly ageMs: () => number
}

type Read = () => number | Readonly<Record<string, number>>

function addGauge(registry: Registry, [name, help, read]: readonly [string, string, Read]): void {
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
}

export function addFrontGauges(registry: Registry, sources: FrontSources): void {
  const gauges: readonly (readonly [string, string, Read])[] = [
    ['pool_threads', 'workers', () => sources.pool().threads],
    ['pool_busy', 'workers with a task', () => sources.pool().busy],
    ['pool_queued', 'calls that wait for a worker, by queue class', () => sources.pool().queued],
    [
      'pool_terminated',
      'workers that the node ended after a deadline or because of their memory',
      () => sources.pool().terminated,
    ],
    ['pool_replaced', 'workers that ended and were replaced', () => sources.pool().replaced],
    [
      'pool_replays',
      'traces since the start, by whether the worker had cached the execution of their block',
      () => sources.pool().replays,
    ],
    [
      'pool_kept_logs',
      'logs of persisted blocks that the workers cache: blocks, bytes, hits and misses',
      sources.logRowsCache,
    ],
    [
      'verified_calls',
      'calls that both engines have run, since the start',
      () => sources.verified().verified,
    ],
    [
      'verified_blocks',
      'canonical blocks that both engines have executed, since the start',
      () => sources.verified().verifiedBlocks,
    ],
    ['verify_mismatches', 'calls and blocks that differed', () => sources.verified().mismatches],
    ['receipt_holds', 'receipt holds since the start, by their end', sources.holds],
    ['feed', 'subscribers of /feed and what happened to them', sources.feed],
    ['front', 'requests in flight, WebSockets, filters, subscriptions', sources.front],
  ]
  for (const gauge of gauges) addGauge(registry, gauge)
  addHeaps(registry, sources.heaps)
}

export function addNodeGauges(registry: Registry, sources: MetricSources): void {
  const gauges: readonly (readonly [string, string, Read])[] = [
    ['flashblock_age_seconds', 'time since the newest publish', () => sources.ageMs() / 1_000],
    ['mishaps', 'incidents since the start; each has a line in the log', sources.incidents],
    [
      'promises',
      'counts of the promise ledger, across restarts: flashblocks, their promises and the outcomes',
      sources.promises,
    ],
    ['transaction_pool', 'transactions in the txpool', sources.txpool],
    [
      'bootstrap',
      'new replicas that copy this node: copies, answers and their bytes since the start, refusals',
      sources.bootstrap,
    ],
  ]
  for (const gauge of gauges) addGauge(registry, gauge)
}

/** The label names the mode and the value is 1, so that an alert can match unwanted modes. */
export function addMode(registry: Registry, mode: StateMode): void {
  new Gauge({
    name: 'flashnode_state',
    help: 'how the node knows that its state is right: whole, proven or trusted',
    labelNames: ['mode'],
    registers: [registry],
  }).set({ mode }, 1)
}

function addHeaps(registry: Registry, read: FrontSources['heaps']): void {
  new Gauge({
    name: 'flashnode_thread_bytes',
    help: 'memory of each thread except the main one: its heap, and its external memory',
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
