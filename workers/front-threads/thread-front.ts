/**
 * The JSON-RPC server of a front thread. It reads the database and runs calls in its own pool. It
 * requests what exists once per node, such as the txpool, from the main thread.
 */
import { openChainReader } from '../../engine/chain/reader.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { openWaitingReader } from '../../engine/txpool/shared/reader.ts'
import { openSharedSeen } from '../../rpc/events/shared-seen.ts'
import { createFeedHub, type FeedHub } from '../../rpc/feed-server/hub.ts'
import { openSharedConcurrencyLimits } from '../../rpc/limiter/shared-concurrency-limits.ts'
import { threadOf } from '../../rpc/limiter/shared-rows.ts'
import { eth_sendTransaction } from '../../rpc/methods/account.ts'
import { accountsOf } from '../front/accounts.ts'
import { bootstrapHandler, feedAccess } from '../front/feed-access.ts'
import { createFront, type Front, type FrontParts } from '../front/front.ts'
import { openPromises } from '../front/promises.ts'
import { createVerifier, mismatchFiles, type Verifier } from '../front/verifier.ts'
import { HEALTH_PROBE_MS, type ReportedReadiness } from '../observe/health.ts'
import { SAMPLE_MS } from '../observe/load.ts'
import { createFrontThreadMetrics, type FrontMetrics } from '../observe/metrics.ts'
import { prepareLater } from '../pool/later.ts'
import { type OpenedPool, openPool } from '../pool/open.ts'
import { probePool } from '../pool/probe.ts'
import type { NodeContext } from '../process/context.ts'
import { SERVER_MS } from '../process/lifecycle.ts'
import { watchHeaps } from '../thread/heaps.ts'
import { type Clock, openClock } from '../thread/running-clock.ts'
import { carried, passedOn } from './carried.ts'
import { filterHome } from './filters.ts'
import type {
  FromFrontThread,
  FrontThreadData,
  FrontThreadQuestions,
  ToFrontThread,
} from './messages.ts'
import { remoteForward, remoteLazy, remoteTransactions } from './ports.ts'
import type { RequestFunction } from './requests.ts'

type Link = {
  readonly request: RequestFunction<keyof FrontThreadQuestions>
  readonly post: (message: FromFrontThread) => void
}
type FrontThreadNotification = Exclude<ToFrontThread, { readonly type: 'ask' | 'answer' }>

export interface ThreadFront {
  readonly front: Front
  readonly metrics: FrontMetrics
  /** Returns the numbers of this thread's pool. */
  readonly pool: () => ReturnType<OpenedPool['pool']['stats']>
  /** Receives the main thread's notifications in order. */
  onMessage(message: FrontThreadNotification): void
}

/** Timeout of a call on the main thread. A call such as `evm_mine` may wait for many blocks. */
const CALL_MS = 600_000
/** Readiness while the main thread does not answer. `outside` has the reasons for the public. */
const NO_READINESS: ReportedReadiness = {
  status: 'unready',
  reasons: ['the main thread does not answer'],
  outside: ['the main thread does not answer'],
  details: {},
}

/** HTTP response to a new replica while the main thread does not answer. */
const NO_BOOTSTRAP = { status: 503, wrong: NO_READINESS.reasons[0]! }

/**
 * Opens the server. It refuses JSON-RPC with 503 until the main thread sends 'paused' without a
 * reason. Each front thread calls this once, at its start. Responses of the main thread arrive only
 * after the promise resolves, so nothing here may await a request.
 */
export async function openThreadFront(
  context: NodeContext,
  data: FrontThreadData,
  link: Link,
): Promise<ThreadFront> {
  const { config, frontThread, node, path } = data
  const chain = chainSpec(node.chain)
  const now = openClock(node.clock)
  const database = attachDatabase(node.database)
  // The row of this thread in the lease table; the front of a front thread is the thread itself.
  const row = { thread: node.thread, front: node.thread, latest: config.latest }
  const store = openStore(database)
  const reader = openChainReader({ ...row, views: node.views, store, chain })
  const opened = openPool(
    context,
    { database, shared: node },
    { ...data, front: node.thread, reader },
  )
  const executor = createVerifier({
    executor: opened.pool,
    limits: config.limits,
    now,
    random: Math.random,
    share: config.verifySample,
    report: context.reporter.report,
    save: mismatchFiles(path, frontThread),
    // Only a differing block halts the writer. Front threads verify calls, not blocks.
    haltWriter: (reason) => link.post({ type: 'distrust', reason }),
  })
  const access = feedAccess(config.enrichTokenFile)
  const feed =
    data.feed && createFeedHub(config.limits, { run: data.feed.run, access, seed: data.feed })
  // The metrics are created before the front, and read it later.
  const later: { front?: Front } = {}
  const metrics = metricsOf({ frontThread, opened, executor, feed, later })
  const reportLoad = measureLoad(opened, metrics, link)
  const remote = openRemote(data, link)
  const front = await createFront({
    ...remote.parts,
    config,
    chain,
    reader,
    executor,
    feed,
    now,
    log: context.log,
    report: context.reporter.report,
    bootstrap: bootstrapHandler(
      config.bootstrapTokenFile,
      async (url) => (await link.request<'bootstrap'>({ what: 'bootstrap', url })) ?? NO_BOOTSTRAP,
    ),
    promises: openPromises(database, () => Date.now()),
    // The status page displays metrics of the whole node.
    metrics: { ...metrics, read: remote.read },
  })
  later.front = front
  opened.spent.open(front.spent)
  front.server.setPaused('starting')
  context.lifecycle.onStop('the server', front.close, { minMs: SERVER_MS })
  const probe = () => void reportProbe(opened, link, now)
  startReports(context, { probe, reportLoad })
  prepareLater(context, opened.pool)
  return {
    front,
    metrics,
    pool: opened.pool.stats,
    onMessage: (message) => onMessage(message, { front, feed, remote, opened, probe }),
  }
}

/**
 * Receives every finished call of the pool, and measures the load.
 * @returns a function that posts the load to the main thread. `waitMs` is the longest time of a
 * call in the queue since the previous post, in milliseconds.
 */
function measureLoad(
  { jobs, pool }: Pick<OpenedPool, 'jobs' | 'pool'>,
  metrics: Pick<FrontMetrics, 'job'>,
  link: Link,
): () => void {
  let waitMs = 0
  jobs.open((job) => {
    metrics.job(job)
    waitMs = Math.max(waitMs, job.queuedMs)
  })
  return () => {
    const { busy, threads } = pool.stats()
    link.post({ type: 'load', busy, threads, waitMs })
    waitMs = 0
  }
}

type MessageTargets = {
  readonly front: Front
  readonly feed: FeedHub | undefined
  readonly remote: ReturnType<typeof openRemote>
  readonly opened: Pick<OpenedPool, 'pool'>
  readonly probe: () => void
}

/** Passes a notification of the main thread to the part that needs it. */
function onMessage(
  message: FrontThreadNotification,
  { front, feed, remote, opened, probe }: MessageTargets,
): void {
  switch (message.type) {
    case 'heard':
      front.onMessage(message.message)
      if (message.message.type === 'published') front.published()
      return
    case 'arrived':
      front.arrived()
      return
    case 'packet':
      feed?.broadcast(message.packet, message.messageId)
      return
    case 'changes':
      feed?.changed(message.changes)
      return
    case 'pending':
      remote.transactions.pending(message.hash, message.transaction)
      return
    case 'departed':
      remote.transactions.departed(message.hashes)
      return
    case 'cancel':
      opened.pool.cancel(message.snapshot)
      return
    case 'paused':
      front.server.setPaused(message.reason)
      if (message.reason === undefined) probe()
      return
    case 'syncing':
      remote.received.syncing = message.syncing
  }
}

/** Opens what this thread shares with the main thread: memory, and services by request. */
function openRemote(data: FrontThreadData, { request, post }: Link) {
  const { frontThread, shared, keys, mode, forwardingUrl, pageMode, hasControls } = data
  const transactions = remoteTransactions(request, openWaitingReader(shared.waiting), post)
  // A method that forwards its calls to the main thread.
  const pass = (method: Parameters<typeof passedOn>[0]) =>
    passedOn(method, ({ client, ...call }) =>
      request<'call'>(
        { what: 'call', ...call, address: client.address },
        { signal: client.signal, withinMs: CALL_MS },
      ),
    )
  const received = { syncing: data.syncing }
  return {
    transactions,
    received,
    read: async (name: string) => (await request<'metric'>({ what: 'metric', name }))?.values ?? [],
    parts: {
      transactions,
      mode,
      forwardingUrl,
      pageMode,
      hasControls,
      accounts: accountsOf(keys),
      methods: data.methods.map(pass),
      // The main thread knows the impersonated accounts and assigns nonces one after the other.
      instead: [pass(carried(eth_sendTransaction))],
      syncing: () => received.syncing,
      lazy: data.isLazy ? remoteLazy(request) : undefined,
      forward: data.hasForward ? remoteForward(request) : undefined,
      readiness: async (maxLagMs?: number) =>
        (await request<'readiness'>({ what: 'readiness', maxLagMs })) ?? NO_READINESS,
      rateBuckets: {
        calls: shared.calls,
        nonRpcRequests: shared.nonRpcRequests,
        thread: threadOf(frontThread),
        // A front thread may sleep for the lock of the buckets; the main thread may not.
        mayWait: true,
      },
      concurrencyLimits: openSharedConcurrencyLimits(shared.concurrencyLimits, frontThread),
      seenAccounts: openSharedSeen(shared.seen, threadOf(frontThread)),
      // A filter exists on the thread that created it; the main thread passes requests on.
      filterHome: filterHome(frontThread, (of, requested) =>
        request<'filter'>({ what: 'filter', frontThread: of, ...requested }),
      ),
    } satisfies Partial<FrontParts>,
  }
}

function metricsOf(parts: {
  readonly frontThread: number
  readonly opened: OpenedPool
  readonly executor: Verifier
  readonly feed: FeedHub | undefined
  readonly later: { readonly front?: Front }
}): FrontMetrics {
  const { opened, executor, feed, later } = parts
  const sources = {
    pool: opened.pool.stats,
    logRowsCache: opened.logRowsCache,
    holds: () => later.front?.holds() ?? {},
    feed: () => (feed === undefined ? {} : { subscribers: feed.subscribers, ...feed.counts }),
    front: () => later.front?.stats() ?? {},
    heaps: watchHeaps().heaps,
    verified: executor.counts,
  }
  return createFrontThreadMetrics(sources, parts.frontThread)
}

/** Checks with one call that the pool answers, and reports the result to the main thread. */
const reportProbe = (opened: Pick<OpenedPool, 'pool'>, { post }: Link, now: Clock): Promise<void> =>
  probePool(opened.pool, now).then(
    () => post({ type: 'probed', problem: undefined }),
    (error: Error) => post({ type: 'probed', problem: error.message }),
  )

/** Reports pool probes and, for a balancer's agent, the load to the main thread until the stop. */
function startReports(
  { config, lifecycle }: NodeContext,
  { probe, reportLoad }: { readonly probe: () => void; readonly reportLoad: () => void },
): void {
  const probes = setInterval(probe, HEALTH_PROBE_MS).unref()
  const loads = config.agentPort > 0 ? setInterval(reportLoad, SAMPLE_MS).unref() : undefined
  lifecycle.onStop('the reports of a front thread', () => {
    clearInterval(probes)
    clearInterval(loads)
  })
}
