/** The JSON-RPC parts of a front thread: services, dispatch and the server. */
import type { ChainReader, Endpoint } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import type { Responder } from '../../rpc/core/exchange.ts'
import type { Executor } from '../../rpc/core/executor.ts'
import type {
  AccountService,
  Forward,
  LazyState,
  PromiseService,
  StateMode,
  Syncing,
  TransactionService,
} from '../../rpc/core/ports.ts'
import type { SlowCallOptions } from '../../rpc/dispatch/slow-calls.ts'
import type { OwnFilters } from '../../rpc/events/filters.ts'
import type { SeenAccounts } from '../../rpc/events/seen-accounts.ts'
import type { FeedHub } from '../../rpc/feed-server/hub.ts'
import { createServer, type Server, type ServerOptions } from '../../rpc/http/server.ts'
import type { StatusPage } from '../../rpc/http/status-page.ts'
import { trustedProxies } from '../../rpc/limiter/address.ts'
import { POINT_MS } from '../../rpc/limiter/points.ts'
import type { RedisStores } from '../../rpc/limiter/redis.ts'
import type { OpenConcurrencyLimit } from '../../rpc/limiter/shared-concurrency-limits.ts'
import type { Method, Methods } from '../../rpc/method/method.ts'
import { methodsOf } from '../../rpc/methods/index.ts'
import { createRpc, type FilterHome, type Rpc, type RpcOptions } from '../../rpc/rpc.ts'
import { version } from '../config/config.ts'
import type { NodeConfig } from '../config/serving-options.ts'
import type { ReportedReadiness } from '../observe/health.ts'
import { type Live, openLive, type PageMode } from '../observe/live.ts'
import { loggable } from '../observe/log.ts'
import type { FrontMetrics } from '../observe/metrics.ts'
import { createPageFiles } from '../observe/page-files.ts'
import type { Report } from '../observe/reporter.ts'
import { createSampler } from '../observe/sample.ts'
import type { Spent } from '../pool/open.ts'
import type { NodeContext } from '../process/context.ts'
import type { RequestContexts } from '../record/request-context.ts'
import type { RequestTaking } from '../record/requests.ts'
import type { FromWriter } from '../thread/messages.ts'
import { type Clock, machineNow } from '../thread/running-clock.ts'
import { openApiKeys } from './api-keys.ts'
import { page } from './banner.ts'
import { openRateBuckets, type RateBuckets, type SharedRateBuckets } from './rate-buckets.ts'
import { statsOfRateBuckets, statsOfRpc, statsOfServer } from './stats.ts'

export type FrontConfig = Pick<
  NodeConfig,
  | 'host'
  | 'http'
  | 'hosts'
  | 'cors'
  | 'trustProxy'
  | 'proxyProtocol'
  | 'rateLimit'
  | 'rateLimitOf'
  | 'apiKeys'
  | 'limitBy'
  | 'limitStore'
  | 'slowCallMs'
  | 'slowCallParams'
  | 'receiptHold'
  | 'methods'
  | 'traceModeOptional'
  // The methods need all limits.
  | 'limits'
>
export type FrontParts = {
  readonly config: FrontConfig
  readonly chain: ChainSpec
  readonly reader: ChainReader
  readonly executor: Executor
  readonly transactions: TransactionService
  readonly promises: PromiseService
  readonly accounts: AccountService
  /** Methods beside those of every node. */
  readonly methods: readonly Method[]
  /** Methods that replace the usual ones of the same names. */
  readonly instead?: readonly Method[]
  /** The node has controls of the chain; by default, if there are further methods. */
  readonly hasControls?: boolean
  /** URL of the node that has the chain before this node's first block. */
  readonly forwardingUrl: string | undefined
  /** Fetches state; undefined when all state is local. */
  readonly lazy?: LazyState | undefined
  /** Forwards calls to the nodes that this node follows. */
  readonly forward?: Forward | undefined
  readonly mode?: StateMode | undefined
  /** Source of blocks for the status page; undefined disables that page. */
  readonly pageMode?: PageMode | undefined
  readonly syncing: () => Syncing
  /** Concurrency limits shared by several fronts; left out when this front is alone. */
  readonly concurrencyLimits?: OpenConcurrencyLimit | undefined
  /** undefined disables /feed. */
  readonly feed: FeedHub | undefined
  /** Handler for new replicas; undefined when no replica may copy this node. */
  readonly bootstrap?: ServerOptions['bootstrap']
  readonly readiness: (maxLagMs?: number) => ReportedReadiness | Promise<ReportedReadiness>
  /** Receives the provenance of responses; undefined when nobody needs it. */
  readonly requestContexts?: RequestContexts | undefined
  /** Records client requests. */
  readonly requests?: Pick<RequestTaking, 'responder'> | undefined
  readonly metrics: FrontMetrics
  /** Rate buckets shared by several fronts; undefined when this front is alone. */
  readonly rateBuckets?: SharedRateBuckets | undefined
  readonly filterHome?: FilterHome | undefined
  readonly seenAccounts?: SeenAccounts | undefined
  readonly report: Report
  readonly log: NodeContext['log']
  /** Clock of the process, which measures the time of calls. */
  readonly now: Clock
}

/** Port and URL of the server. */
export type ListenAddress = { readonly port: number; readonly url: string }

export interface Front {
  readonly server: Server
  readonly respond: Responder
  /** Filters of this thread. */
  readonly filters: OwnFilters
  /**
   * Starts to listen.
   * @returns the actual port and the URL
   * @throws the system's error
   */
  listen(port: number, reusePort?: boolean): Promise<ListenAddress>
  /** Reports that a new snapshot can be read. */
  published(): void
  /** Reports a published snapshot that becomes visible to clients later. */
  arrived(): void
  close(): Promise<void>
  /** Reloads the API keys and returns their number; undefined for a faulty file. */
  readonly reloadKeys?: (() => number | undefined) | undefined
  /** Receives the writer's messages before the state that they announce is read. */
  onMessage(message: FromWriter): void
  /** The status page; undefined when disabled. */
  readonly status: (StatusPage & Pick<Live, 'openInside'>) | undefined
  /** Charges the address of a finished call for the worker's time. */
  readonly spent: (spent: Spent) => void
  readonly holds: () => Readonly<Record<string, number>>
  readonly stats: () => Readonly<Record<string, number>>
}

/**
 * The front needs no engine, because the pool runs the EVM. Loading one would take an eighth of a
 * second of every start.
 */
const refuse = (): never => {
  throw new Error('the front runs no EVM')
}
const NO_ENGINE: Engine = { name: 'none', openSession: refuse, precompiles: refuse }

export async function createFront(parts: FrontParts): Promise<Front> {
  const { config, chain } = parts
  const [publishes, arrivals] = [createListeners(), createListeners()]
  publishes.add(arrivals.fire)
  const { apiKeys, limits } = config
  const opened = apiKeys === undefined ? undefined : openApiKeys(apiKeys, parts.report)
  const store = await openLimitStore(config.limitStore, parts.report)
  const ofCallers = { keys: opened?.keys, store, shared: parts.rateBuckets, now: machineNow }
  const rateBuckets = openRateBuckets({ ...parts, ...ofCallers })
  const rpc = openRpc(parts, rateBuckets, { onPublish: publishes.add, onArrival: arrivals.add })
  const newestSnapshot = () => parts.reader.newestSnapshot()
  const respond = parts.requests?.responder(rpc.respond, newestSnapshot) ?? rpc.respond
  let url = ''
  const live = openLive({
    ...parts,
    limits,
    flashblocks: rpc.flashblocks,
    version,
    hasControls: parts.hasControls ?? (config.methods === 'all' && parts.methods.length > 0),
  })
  const status = live && { ...createPageFiles(), live: live.open, openInside: live.openInside }
  const server = await openServer(parts, rateBuckets, {
    respond,
    page: () => page(chain, url),
    apiKeys: opened?.keys,
    status,
  })
  return {
    server,
    respond,
    filters: rpc.filters,
    status,
    onMessage: (message) => live?.onMessage(message),
    async listen(port, reusePort = false) {
      const { host } = config
      const taken = await server.listen({ host, port, ...(reusePort && { reusePort }) })
      url = urlOf(host, taken)
      return { port: taken, url }
    },
    published: publishes.fire,
    arrived: arrivals.fire,
    reloadKeys: opened && (() => reloadKeys(opened, server)),
    async close() {
      await server.close()
      store?.close()
    },
    spent({ address, cpuMs }) {
      const points = Math.floor(cpuMs / POINT_MS)
      if (points > 0) rateBuckets.limiter.owe(address, points)
    },
    holds() {
      const { hold, seen, flashblockWaits, receiptWaits } = rpc.stats()
      return {
        ...hold,
        waiting: receiptWaits,
        latest: seen.held,
        latestExpired: seen.expired,
        place: flashblockWaits.held,
        placeWaiting: flashblockWaits.waiting,
        placeExpired: flashblockWaits.expired,
      }
    },
    stats: () => ({
      ...statsOfServer(server),
      ...statsOfRateBuckets(rateBuckets),
      ...(live === undefined ? {} : { pageViewers: live.viewers }),
      ...statsOfRpc(rpc.stats()),
    }),
  }
}

function reloadKeys(keys: ReturnType<typeof openApiKeys>, server: Server): number | undefined {
  const { count, gone } = keys.reload() ?? {}
  if (gone !== undefined) server.closeCallers(gone)
  return count
}

function openRpc(
  parts: FrontParts,
  { charging }: RateBuckets,
  { onPublish, onArrival }: Pick<Parameters<typeof createRpc>[0], 'onPublish' | 'onArrival'>,
): Rpc {
  const { config, report } = parts
  return createRpc({
    reader: parts.reader,
    transactions: parts.requestContexts?.transactions(parts.transactions) ?? parts.transactions,
    promises: parts.promises,
    accounts: parts.accounts,
    executor: parts.executor,
    chain: parts.chain,
    engine: NO_ENGINE,
    limits: config.limits,
    concurrencyLimits: parts.concurrencyLimits,
    methods: { standard: servedBy(parts, 'standard'), flashblocks: servedBy(parts, 'flashblocks') },
    limiter: charging,
    limitBy: config.limitBy,
    receiptHoldMs: config.receiptHold,
    filterHome: parts.filterHome,
    seenAccounts: parts.seenAccounts,
    forwardingUrl: parts.forwardingUrl,
    lazy: parts.lazy,
    forward: parts.forward,
    mode: parts.mode,
    clientVersion: `flashnode/v${version()}/${process.platform}-${process.arch}/node${process.version}`,
    onPublish,
    onArrival,
    syncing: parts.syncing,
    now: parts.now,
    onBug: (error, method) => report('call_failed', { err: error, method: loggable(method) }),
    onCall: onCallOf(parts),
    slowCalls: slowCallsOf(parts),
    provenance: parts.requestContexts?.provenance,
  })
}

/** Counts each call, and logs it at the levels that show single requests. */
function onCallOf({ log, metrics }: FrontParts): NonNullable<RpcOptions['onCall']> {
  if (log.isLevelEnabled?.('debug') !== true) return metrics.call
  return (method, ms, code) => {
    metrics.call(method, ms, code)
    log.debug({ method: loggable(method), ms: Math.round(ms), status: code ?? 'ok' }, 'request')
  }
}

function slowCallsOf({ config, log }: FrontParts): SlowCallOptions | undefined {
  const { slowCallMs: ms, slowCallParams: hasParams } = config
  if (ms === 0) return undefined
  return { ms, hasParams, report: (call) => log.info(call, 'a slow call') }
}

function openServer(
  { config, concurrencyLimits, feed, bootstrap, readiness, report, now }: FrontParts,
  { charging, visiting }: RateBuckets,
  served: Pick<ServerOptions, 'respond' | 'page' | 'apiKeys' | 'status'>,
): Promise<Server> {
  return createServer({
    ...served,
    http: config.http,
    limits: config.limits,
    concurrencyLimits,
    cors: config.cors,
    hosts: [...config.hosts, config.host],
    trustedProxies: trustedProxies(config.trustProxy),
    namingProxies: trustedProxies(config.proxyProtocol),
    onUnnamed: unnamedOf(report, now),
    limiter: charging,
    nonRpcRequests: visiting,
    onBug: (error) => report('answer_not_sent', { err: error }),
    feed: feed?.handle,
    bootstrap,
    readiness,
    now,
    clock: () => Date.now(),
  })
}

/**
 * A misconfigured proxy fails on every connection, so the log is sampled. `socketsUnnamed` counts
 * all of them.
 */
function unnamedOf(report: Report, now: () => number): ServerOptions['onUnnamed'] {
  const logUnnamed = createSampler(SAID_MS, now, (reason) => report('client_not_named', { reason }))
  return (why, proxy) => logUnnamed(why, `${proxy}: ${why}`)
}
const SAID_MS = 10_000

function servedBy({ config, methods, instead = [] }: FrontParts, endpoint: Endpoint): Methods {
  const served = new Map(methodsOf(endpoint, config.methods, config.traceModeOptional))
  for (const method of instead) if (served.has(method.name)) served.set(method.name, method)
  if (config.methods === 'all') for (const method of methods) served.set(method.name, method)
  return served
}

const urlOf = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`

function createListeners(): {
  readonly add: (listener: () => void) => () => void
  readonly fire: () => void
} {
  const listeners = new Set<() => void>()
  return {
    add(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    fire() {
      for (const listener of listeners) listener()
    },
  }
}

/**
 * Opens the store of the rate limits' points. The Redis client is loaded on demand, because most
 * nodes need none.
 * @returns undefined for the memory of this process
 */
async function openLimitStore(store: string, report: Report): Promise<RedisStores | undefined> {
  if (store === 'memory') return undefined
  const { openRedis } = await import('../../rpc/limiter/redis.ts')
  return openRedis(store, {
    onDisconnected: (reason) => report('limit_store_away', { reason }),
    now: Date.now,
  })
}
