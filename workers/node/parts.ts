/** Opens the parts of a node, before they are connected to clients. */
import { randomBytes } from 'node:crypto'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { WaitingWriter } from '../../engine/txpool/shared/writer.ts'
import { createFeedHub, type FeedHub } from '../../rpc/feed-server/hub.ts'
import { type BootstrapService, openBootstrapService } from '../bootstrap/source.ts'
import type { OpenedData } from '../data/open.ts'
import { createDigester } from '../front/digester.ts'
import { feedAccess } from '../front/feed-access.ts'
import type { Front } from '../front/front.ts'
import { createProver } from '../front/prover.ts'
import type { SharedPositions } from '../front/shared-positions.ts'
import type { SharedTransactions } from '../front/shared-transactions.ts'
import { createTransactions, type Transactions } from '../front/transactions.ts'
import { createVerifier, mismatchFiles, type Verifier } from '../front/verifier.ts'
import { createWhitelist } from '../front/whitelist.ts'
import type { FrontThreads } from '../front-threads/front-threads.ts'
import type { MetricSources } from '../observe/gauges.ts'
import { createHealth, type Health, type SourceState } from '../observe/health.ts'
import { createLoad, type Load } from '../observe/load.ts'
import { createMetrics, type Metrics, type MetricsAbout } from '../observe/metrics.ts'
import type { OpenedPool } from '../pool/open.ts'
import { probePool } from '../pool/probe.ts'
import type { NodeContext } from '../process/context.ts'
import { createFailing, type Failing } from '../process/failing.ts'
import type { Heap } from '../thread/heaps.ts'
import { type Clock, machineNow } from '../thread/running-clock.ts'
import type { ChainThreads } from './chain-threads.ts'
import { onPersistence, onWriter } from './on-messages.ts'
import type { ConnectedSource, Role } from './role.ts'

/** Parts that run while the main thread loads the rest. */
export type StartedNode = OpenedData &
  OpenedPool & {
    readonly threads: ChainThreads
    readonly reader: ChainReader
    readonly heaps: () => Promise<readonly Heap[]>
    /** Clock of the process, by which the limits of calls are counted. */
    readonly now: Clock
  }
export type Parts = StartedNode & {
  readonly transactions: Transactions
  readonly feed: FeedHub
  readonly health: Health
  readonly metrics: Metrics
  readonly load: Load
  readonly failing: Failing
  /** The pool for clients. */
  readonly executor: Verifier
  /** undefined if no replica may copy this node. */
  readonly bootstrap: BootstrapService | undefined
  /** Parts that are opened after the first messages may arrive. */
  readonly later: {
    front?: Front
    source?: ConnectedSource
    frontThreads?: FrontThreads
    shared?: SharedTransactions
    sharedPositions?: SharedPositions
  }
  /** Halts the writer, because the other engine disagrees about a canonical block or a response. */
  readonly haltWriter: (reason: string) => void
}

/** Makes a random name that distinguishes this run of the node from others. */
const runName = (): string => `0x${randomBytes(8).toString('hex')}`

/** Opens the remaining parts, and handles earlier and later messages of the threads. */
export function openParts(
  context: NodeContext,
  started: StartedNode,
  role: Pick<Role, 'readiness' | 'mode' | 'isGuest' | 'isQuiet' | 'hidesBlocks'>,
  waiting?: WaitingWriter,
): Parts {
  const { config, reporter } = context
  const { report } = reporter
  const { limits } = config
  const { mode, isGuest, isQuiet, hidesBlocks } = role
  const { chain, reader, pool, jobs, journal, threads, now } = started
  const later: Parts['later'] = {}
  const access = feedAccess(config.enrichTokenFile)
  const feed = feedOfAll(createFeedHub(limits, { run: runName(), access }), later)
  const health = createHealth({
    now: machineNow,
    ...role.readiness,
    mode,
    probe: () => probePool(pool, now),
    source: () => stateOf(later),
  })
  const failing = createFailing({ report, fail: context.fail }, health)
  const calling = { executor: pool, limits, now }
  const transactions = createTransactions({
    reader,
    chain,
    journal,
    limits,
    waiting,
    now,
    prove: createProver(calling),
    makeDigest: createDigester(calling),
    isListed: createWhitelist(chain, calling),
    onFailure: failing,
  })
  const haltWriter = (reason: string) => {
    health.failed({ text: reason, outside: 'its own answers differ from one another' })
    threads.writer.post({ type: 'distrust', reason })
  }
  const verifier = verifierOf(context, started, haltWriter)
  const bootstrap = bootstrapOf(context, started)
  const metered = { feed, transactions, bootstrap, verifier, incidents: reporter.counts, later }
  const metrics = metricsOf(started, { mode, isGuest }, metered)
  const load = createLoad(() => later.frontThreads?.load() ?? pool.stats(), machineNow)
  const parts: Parts = {
    ...started,
    load,
    feed,
    transactions,
    health,
    metrics,
    failing,
    later,
    bootstrap,
    executor: verifier,
    haltWriter,
  }
  jobs.open((job) => {
    metrics.job(job)
    load.queued(job.queuedMs)
  })
  threads.fromPersistence.open((message) => onPersistence(message, parts, context))
  const printsBlocks = isQuiet !== true && hidesBlocks !== true && process.stdout.isTTY
  const writerParts = { ...parts, printsBlocks, visible: { hashes: [], isFollowed: false } }
  threads.fromWriter.open((message) => onWriter(message, writerParts, context))
  return parts
}

const verifierOf = (
  { config: { limits, verifySample }, reporter }: NodeContext,
  { pool, now, directory }: StartedNode,
  haltWriter: Parts['haltWriter'],
): Verifier =>
  createVerifier({
    executor: pool,
    limits,
    now,
    random: Math.random,
    share: verifySample,
    report: reporter.report,
    save: mismatchFiles(directory.path),
    haltWriter,
  })

function metricsOf(
  { pool, logRowsCache, heaps }: StartedNode,
  about: Pick<MetricsAbout, 'mode' | 'isGuest'>,
  parts: Pick<Parts, 'feed' | 'transactions' | 'bootstrap' | 'later'> & {
    readonly verifier: Verifier
    readonly incidents: MetricSources['incidents']
  },
): Metrics {
  const { feed, transactions, bootstrap, verifier, incidents, later } = parts
  return createMetrics(
    {
      pool: pool.stats,
      logRowsCache,
      holds: () => later.front?.holds() ?? {},
      feed: () => ({ subscribers: feed.subscribers, ...feed.counts }),
      txpool: () => ({ ...transactions.stats(), ...sharingStats(later) }),
      front: () => later.front?.stats() ?? {},
      heaps,
      bootstrap: () => bootstrap?.stats() ?? {},
      incidents,
      verified: verifier.counts,
    },
    machineNow,
    { ...about, others: othersOf(later) },
  )
}

/** Returns undefined if no replica may copy this node. */
function bootstrapOf(
  { config, reporter, lifecycle }: NodeContext,
  { database, directory }: StartedNode,
): BootstrapService | undefined {
  if (config.bootstrapTokenFile === undefined) return undefined
  const { report } = reporter
  const service = openBootstrapService({
    config,
    limits: config.limits,
    database,
    path: directory.path,
    report,
    now: machineNow,
  })
  lifecycle.onStop('the service for new replicas', service.close)
  return service
}

const sharingStats = ({ shared, sharedPositions }: Parts['later']) => ({
  ...shared?.stats(),
  ...sharedPositions?.stats(),
})

/** The feed of this thread, which also notifies the front threads. */
function feedOfAll(hub: FeedHub, later: Pick<Parts['later'], 'frontThreads'>): FeedHub {
  return {
    ...hub,
    get subscribers() {
      return hub.subscribers
    },
    broadcast(packet, messageId) {
      hub.broadcast(packet, messageId)
      later.frontThreads?.notify({ type: 'packet', packet, messageId })
    },
    changed(changes) {
      hub.changed(changes)
      later.frontThreads?.notify({ type: 'changes', changes })
    },
  }
}

const NOTHING_SAID: SourceState = { degraded: [], unready: [], details: {} }
function stateOf({ source, frontThreads }: Parts['later']): SourceState | undefined {
  const said = source?.state?.()
  const suspicions = frontThreads?.suspicions() ?? []
  if (suspicions.length === 0) return said
  const { degraded, ...rest } = said ?? NOTHING_SAID
  return { ...rest, degraded: [...degraded, ...suspicions] }
}

/** A metrics request waits at most this long for a busy front thread. */
const METRICS_MS = 2_000
const othersOf = (
  later: Pick<Parts['later'], 'frontThreads'>,
): MetricsAbout['others'] & object => ({
  async texts() {
    const request = later.frontThreads?.requestAll<'metrics'>({ what: 'metrics' }, METRICS_MS)
    return ((await request) ?? []).map(({ text }) => text)
  },
  async read(name) {
    const request = later.frontThreads?.requestAll<'metric'>({ what: 'metric', name }, METRICS_MS)
    return ((await request) ?? []).flatMap(({ values }) => values)
  },
})
