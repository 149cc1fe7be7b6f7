/**
 * The front of a front thread: it reads and runs calls itself. Everything unique is requested from
 * the main thread.
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
  readonly pool: () => ReturnType<OpenedPool['pool']['stats']>
  onMessage(message: FrontThreadNotification): void
}

/** Timeout of a call; a control of a development chain may wait for many blocks. */
const CALL_MS = 600_000
const UNHEARD: ReportedReadiness = {
  status: 'unready',
  reasons: ['the main thread does not answer'],
  outside: ['the main thread does not answer'],
  details: {},
}

const SILENT = { status: 503, wrong: UNHEARD.reasons[0]! }

export async function openThreadFront(
  context: NodeContext,
  data: FrontThreadData,
  link: Link,
): Promise<ThreadFront> {
  const { config, frontThread, node, path } = data
  const chain = chainSpec(node.chain)
  const now = openClock(node.clock)
  const database = attachDatabase(node.database)
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
    haltWriter: (reason) => link.post({ type: 'distrust', reason }),
  })
  const access = feedAccess(config.enrichTokenFile)
  const feed =
    data.feed && createFeedHub(config.limits, { run: data.feed.run, access, seed: data.feed })
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
      async (url) => (await link.request<'bootstrap'>({ what: 'bootstrap', url })) ?? SILENT,
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
  watchFromNowOn(context, { probe, reportLoad })
  prepareLater(context, opened.pool)
  return {
    front,
    metrics,
    pool: opened.pool.stats,
    onMessage: (message) => onMessage(message, { front, feed, remote, opened, probe }),
  }
}

/** @returns reports the load since its last call */
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

function openRemote(data: FrontThreadData, { request, post }: Link) {
  const { frontThread, shared, keys, mode, forwardingUrl, pageMode, hasControls } = data
  const transactions = remoteTransactions(request, openWaitingReader(shared.waiting), post)
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
        (await request<'readiness'>({ what: 'readiness', maxLagMs })) ?? UNHEARD,
      rateBuckets: {
        calls: shared.calls,
        nonRpcRequests: shared.nonRpcRequests,
        thread: threadOf(frontThread),
        mayWait: true,
      },
      concurrencyLimits: openSharedConcurrencyLimits(shared.concurrencyLimits, frontThread),
      seenAccounts: openSharedSeen(shared.seen, threadOf(frontThread)),
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

const reportProbe = (opened: Pick<OpenedPool, 'pool'>, { post }: Link, now: Clock): Promise<void> =>
  probePool(opened.pool, now).then(
    () => post({ type: 'probed', problem: undefined }),
    (error: Error) => post({ type: 'probed', problem: error.message }),
  )

/** Sends regular reports to the main thread. */
function watchFromNowOn(
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
