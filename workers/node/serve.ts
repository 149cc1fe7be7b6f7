/**
 * Connects a node whose threads run: opens its parts, links them to clients, and reports readiness.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainReader } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { createWaitingMemory } from '../../engine/txpool/shared/memory.ts'
import { openWaitingWriter } from '../../engine/txpool/shared/writer.ts'
import type { ChainPosition } from '../../engine/views/visibility.ts'
import type { Responder } from '../../rpc/core/exchange.ts'
import type { TransactionService } from '../../rpc/core/ports.ts'
import { createSeenMemory } from '../../rpc/events/shared-seen.ts'
import { createLimiterMemory } from '../../rpc/limiter/memory.ts'
import { createConcurrencyMemory } from '../../rpc/limiter/shared-concurrency-limits.ts'
import { threadOf } from '../../rpc/limiter/shared-rows.ts'
import type { NodeConfig } from '../config/serving-options.ts'
import { accountsOf, openKeys } from '../front/accounts.ts'
import { type Addresses, addressLines, readyLine } from '../front/banner.ts'
import { bringBack } from '../front/bring-back.ts'
import { bootstrapHandler } from '../front/feed-access.ts'
import { createFront, type Front } from '../front/front.ts'
import { openPromises } from '../front/promises.ts'
import { filterHome } from '../front-threads/filters.ts'
import type { SharedCounts } from '../front-threads/messages.ts'
import { startAdmin } from '../observe/admin.ts'
import { agentLine, startAgent } from '../observe/agent.ts'
import { HEALTH_PROBE_MS } from '../observe/health.ts'
import { modeOf } from '../observe/live.ts'
import { prepareLater } from '../pool/later.ts'
import { type NodeContext, StartError } from '../process/context.ts'
import { SERVER_MS } from '../process/lifecycle.ts'
import { saveCompiled } from '../thread/compile-cache.ts'
import {
  type ClientServers,
  FRONT_THREADS_MS,
  type FrontThreadParts,
  frontThreadServers,
  mainThreadServers,
} from './client-servers.ts'
import { openParts, type Parts, type StartedNode } from './parts.ts'
import type { ConnectedSource, Role } from './role.ts'

/** Timeout for the first response of the pool. */
const START_MS = 30_000
const STATS_MS = 2_000
const PAGE_TYPE = 'application/json'

/** A running node, as its own process uses it. */
export type Served = {
  /** URL of its port; empty if there is none. */
  readonly url: string
  /** Responds as to a client of the sockets. */
  readonly respond: Responder
}

/** Resolves when the node is ready. @throws an error with a text of one line */
export async function serve(
  context: NodeContext,
  started: StartedNode,
  role: Role,
): Promise<Served> {
  const { config, lifecycle, log } = context
  const keys = openKeys(config, role.keys)
  const counts = countsOf(config)
  const parts = openParts(context, started, role, counts && openWaitingWriter(counts.waiting))
  const { transactions, threads } = parts
  const source = await threads.source?.connect({ ...parts, writer: threads.writer })
  if (source !== undefined) parts.later.source = source
  const syncing = source?.syncing ?? role.syncing
  const service = await openService(context, parts, role)
  const front = await openFront(context, parts, { role, source, keys, counts, syncing, service })
  const servers =
    counts === undefined
      ? mainThreadServers(front)
      : await frontThreadServers(context, parts, {
          front,
          source,
          role,
          counts,
          keys,
          syncing,
          service,
        })
  if (servers.reloadKeys !== undefined && role.isGuest !== true) onHangUp(log, servers.reloadKeys)
  servers.setPaused('starting')
  lifecycle.onStop('the server', servers.close, {
    minMs: config.frontThreads > 1 ? FRONT_THREADS_MS : SERVER_MS,
  })
  const url = role.hasNoPort === true ? '' : (await listen(config, servers)).url
  await openAdmin(context, parts)
  await openAgent(context, parts)
  await parts.threads.ready
  const startHead = headsOf(parts.reader).canonical
  const found = transactions.restore(parts.journal.found)
  logRestored(log, found.restored)
  await source?.start(front.respond)
  if (source?.lazy !== undefined)
    void bringBack(found, { transactions, lazy: source.lazy }).then(
      (restored) => logRestored(log, restored),
      (error: Error) => context.fail(`journalled transactions: ${error.message}`),
    )
  const isQuiet = role.isQuiet === true
  await becomeReady(context, parts, { servers, url, source, startHead, isQuiet })
  return { url, respond: front.respond }
}

/** Counters that several front threads share; undefined if there is one front. */
function countsOf({ frontThreads, limits }: NodeConfig): SharedCounts | undefined {
  if (frontThreads === 1) return undefined
  return {
    calls: createLimiterMemory(limits.limiterKeys),
    nonRpcRequests: createLimiterMemory(limits.limiterKeys),
    concurrencyLimits: createConcurrencyMemory({
      rows: countRowsOf(limits),
      frontThreads: 1 + frontThreads,
    }),
    waiting: createWaitingMemory(),
    seen: createSeenMemory(limits),
  }
}

/**
 * Opens the service for sending transactions. The Redis stream is loaded on demand, because most
 * nodes have none.
 */
async function openService(
  { lifecycle, reporter }: NodeContext,
  { transactions, chain, later, threads }: Parts,
  { shareTransactions: url, flashblockLag }: Role,
): Promise<TransactionService> {
  const { service } = transactions
  if (url === undefined) return service
  const { shareTransactions } = await import('../front/shared-transactions.ts')
  const { chainId } = chain
  const lazy = later.source?.lazy
  const { report } = reporter
  const shared = shareTransactions({ url, chainId, transactions: service, lazy, report })
  lifecycle.onStop('the stream of transactions', shared.close)
  later.shared = shared
  if (flashblockLag !== undefined) {
    const { sharePositions } = await import('../front/shared-positions.ts')
    const onPosition = (position: ChainPosition) => threads.writer.post({ type: 'heard', position })
    const sharedPositions = sharePositions({ url, chainId, onPosition, report })
    lifecycle.onStop('the channel of flashblock positions', sharedPositions.close)
    later.sharedPositions = sharedPositions
  }
  return shared.telling(service)
}

/** Rows for everything that is counted for each client, up to the totals of all clients. */
const countRowsOf = (limits: NodeConfig['limits']): number =>
  limits.filtersTotal +
  2 * limits.holdsTotal +
  limits.placeWaitsTotal +
  limits.syncSendsTotal +
  limits.legacyCallsTotal +
  limits.forwardsTotal +
  limits.connectionsTotal +
  limits.sockets +
  limits.refusedSocketsTotal

/**
 * Opens the main thread's front; with front threads it answers only requests that need the main
 * thread.
 */
async function openFront(
  { config, log, reporter }: NodeContext,
  parts: Parts,
  {
    role,
    source,
    keys,
    counts,
    syncing,
    service,
  }: Omit<FrontThreadParts, 'front' | 'counts'> & {
    readonly counts: SharedCounts | undefined
  },
): Promise<Front> {
  const { chain, reader, health, executor, metrics, later, now } = parts
  const front = await createFront({
    config,
    chain,
    reader,
    metrics,
    now,
    executor,
    syncing,
    accounts: { ...accountsOf(keys), impersonated: source?.impersonated },
    log,
    report: reporter.report,
    feed: source && parts.feed,
    bootstrap: bootstrapHandler(config.bootstrapTokenFile, parts.bootstrap?.respond),
    methods: source?.methods ?? [],
    forwardingUrl: role.forwardingUrl,
    lazy: source?.lazy,
    forward: source?.forward,
    mode: role.mode,
    pageMode: config.page === 'on' ? modeOf(role) : undefined,
    transactions: service,
    promises: openPromises(parts.database, () => Date.now()),
    readiness: (maxLagMs) => health.readiness(maxLagMs),
    requestContexts: role.recording?.requestContexts,
    requests: role.recording?.type === 'record' ? role.recording.requestContexts : undefined,
    ...(counts && {
      /*
       * Rate limits of the admin port are counted here alone, because this thread must not wait for
       * another thread's lock.
       */
      rateBuckets: {
        calls: counts.calls,
        nonRpcRequests: counts.nonRpcRequests,
        thread: threadOf(0),
        mayWait: false,
      },
      filterHome: filterHome(0, async (frontThread, request) =>
        later.frontThreads?.filter(frontThread, request),
      ),
    }),
  })
  later.front = front
  parts.spent.open(front.spent)
  return front
}

function onHangUp(log: NodeContext['log'], reload: () => Promise<number | undefined>): void {
  process.on('SIGHUP', async () => {
    const keys = await reload()
    if (keys !== undefined) log.info({ keys }, 'the API keys were read again')
  })
}

function logRestored(log: NodeContext['log'], restored: number): void {
  if (restored > 0) log.info({ restored }, 'restored accepted transactions to the txpool')
}

type Opened = {
  readonly servers: ClientServers
  readonly url: string
  readonly source: ConnectedSource | undefined
  /** Canonical height when the directory was opened. */
  readonly startHead: number
  readonly isQuiet: boolean
}

/**
 * Answers requests from the stored head, and reports ready when the node has caught up with its
 * chain.
 */
async function becomeReady(
  context: NodeContext,
  parts: Parts,
  { servers, url, source, startHead, isQuiet }: Opened,
): Promise<void> {
  const { config, lifecycle, log } = context
  const { reader, health, chain, pool } = parts
  const { canonical, pending } = headsOf(reader)
  health.published(canonical, pending, false)
  const problem = await firstProbe(context, parts)
  const probes = setInterval(() => void health.probe(), HEALTH_PROBE_MS).unref()
  lifecycle.onStop(
    'the requests in flight',
    async (withinMs) => {
      clearInterval(probes)
      health.stopping()
      // The pause lets load balancers see the changed readiness before requests are refused.
      if (config.drainMs > 0) await sleep(config.drainMs)
      await servers.drain(withinMs - config.drainMs)
    },
    { extraMs: config.drainMs, about: servers.waitsFor },
  )
  if (lifecycle.isStopping) return
  if (problem !== undefined) throw new StartError(`cannot answer requests: ${problem}`)
  health.started()
  servers.setPaused(undefined)
  if (source?.caughtUp !== undefined) {
    log.info({ url, head: canonical }, 'answers from the stored head until it has caught up')
    await source.caughtUp
    if (lifecycle.isStopping) return
  }
  if (!isQuiet) {
    if (source !== undefined) process.stdout.write(source.banner(chain))
    if (url !== '') {
      const makesChain = source !== undefined && source.caughtUp === undefined
      const continued = continuedChain(config, chain, { startHead, makesChain })
      const { page, rateLimit } = config
      const [hasFeed, hasPage] = [source !== undefined, page === 'on']
      process.stdout.write(addressLines({ url, hasFeed, hasPage, rateLimit, continued }))
    }
    process.stdout.write(readyLine(url, chain.chainId, BigInt(headsOf(reader).canonical)))
  }
  pool.saveCompiled()
  saveCompiled()
  prepareLater({ config, lifecycle }, pool)
}

/** Returns undefined if the chain starts now, or if its directory is temporary. */
function continuedChain(
  { datadir }: Pick<NodeConfig, 'datadir'>,
  { genesisHeader }: Pick<ChainSpec, 'genesisHeader'>,
  { startHead, makesChain }: { readonly startHead: number; readonly makesChain: boolean },
): Addresses['continued'] {
  if (datadir === undefined || BigInt(startHead) === genesisHeader.number) return undefined
  const hint = makesChain ? '; --ephemeral starts a new chain' : ''
  return { path: datadir, block: startHead, hint }
}

const headsOf = (reader: ChainReader) =>
  readNewest(reader, 'standard', ({ canonical, pending }) => ({
    canonical: Number(canonical.number),
    pending: Number(pending.number),
  }))

/**
 * Repeats the probe until the timeout, because a busy machine may be slow.
 * @returns the problem, if there is one
 */
async function firstProbe(
  { lifecycle }: NodeContext,
  { health, now }: Parts,
): Promise<string | undefined> {
  const until = now() + START_MS
  for (;;) {
    const problem = await health.probe()
    if (problem === undefined || now() >= until || lifecycle.isStopping) return problem
  }
}

async function listen({ host, port }: NodeConfig, servers: ClientServers) {
  try {
    return await servers.listen(port)
  } catch (error) {
    throw cannotListen(error, { host, port, flag: '--port' })
  }
}

async function openAdmin({ config, lifecycle }: NodeContext, parts: Parts): Promise<void> {
  const { adminPort } = config
  if (adminPort === 0) return
  const { metrics, health, pool, transactions, later } = parts
  const readiness = () => {
    const { outside: _, ...reported } = health.readiness()
    return reported
  }
  const details = async () => ({
    ...readiness(),
    pool: pool.stats(),
    transactions: transactions.stats(),
    front: later.front?.stats(),
    cells: await later.frontThreads?.requestAll<'stats'>({ what: 'stats' }, STATS_MS),
  })
  try {
    const pages = {
      '/metrics': async () => ({ type: metrics.contentType, text: await metrics.text() }),
      '/': async () => ({ type: PAGE_TYPE, text: JSON.stringify(await details(), null, 2) }),
    }
    const { status, server } = later.front ?? {}
    const admin = await startAdmin(adminPort, pages, status && { status, adopt: server!.adopt })
    lifecycle.onStop('the admin server', admin.close)
  } catch (error) {
    throw cannotListen(error, { host: '127.0.0.1', port: adminPort, flag: '--admin-port' })
  }
}

async function openAgent({ config, lifecycle }: NodeContext, parts: Parts): Promise<void> {
  const { agentPort: port, agentHost: host } = config
  if (port === 0) return
  const { health, load } = parts
  const weighing = load.start()
  try {
    const agent = await startAgent({ host, port }, () => agentLine(health, weighing))
    lifecycle.onStop('the agent', async () => {
      weighing.close()
      await agent.close()
    })
  } catch (error) {
    throw cannotListen(error, { host, port, flag: '--agent-port' })
  }
}

function cannotListen(
  error: unknown,
  { host, port, flag }: { readonly host: string; readonly port: number; readonly flag: string },
): StartError {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE')
    return new StartError(
      `port ${port} of ${host} is in use: stop the program that uses it, or give another ${flag}`,
    )
  if (code === 'EACCES')
    return new StartError(
      `this user may not listen on port ${port} of ${host}: give another ${flag}`,
    )
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new StartError(`${host} is not an address of this machine: give another --host`)
  return new StartError(`cannot listen on ${host}:${port}: ${message}`)
}
