/** What lives on the front thread for JSON-RPC: services, dispatch and the server. */
import type { ChainReader, Endpoint } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import type { SlowCallOptions } from '../../rpc/dispatch/slow-calls.ts'
import type { OwnFilters } from '../../rpc/events/filters.ts'
import type { ShownNotes } from '../../rpc/events/shown-notes.ts'
import type { FeedHub } from '../../rpc/feed/hub.ts'
import { createServer, type Server, type ServerOptions } from '../../rpc/http/server.ts'
import type { StatusPage } from '../../rpc/http/status-page.ts'
import { POINT_MS } from '../../rpc/limiter/points.ts'
import type { Method, Methods } from '../../rpc/method/method.ts'
import { methodsOf } from '../../rpc/methods/index.ts'
import {
  createRpc,
  type FilterHome,
  type Rpc,
  type RpcOptions,
  type RpcStats,
} from '../../rpc/rpc.ts'
import { trustedProxies } from '../../rpc/seam/address.ts'
import type { Answerer } from '../../rpc/seam/exchange.ts'
import type { Executor } from '../../rpc/seam/executor.ts'
import type {
  AccountService,
  Forward,
  LazyState,
  PromiseService,
  StateMode,
  Syncing,
  TransactionService,
} from '../../rpc/seam/ports.ts'
import type { OpenCaps } from '../../rpc/seam/shared-caps.ts'
import { version } from '../config/config.ts'
import type { NodeConfig } from '../config/serving.ts'
import type { ToldReadiness } from '../observe/health.ts'
import { type Live, openLive, type PageMode } from '../observe/live.ts'
import { loggable } from '../observe/log.ts'
import type { FrontMetrics } from '../observe/metrics.ts'
import { createPageFiles } from '../observe/page-files.ts'
import type { Report } from '../observe/reporter.ts'
import { createSampler } from '../observe/sample.ts'
import type { Spent } from '../pool/open.ts'
import type { NodeContext } from '../process/context.ts'
import type { Courses } from '../record/courses.ts'
import type { RequestTaking } from '../record/requests.ts'
import type { FromWriter } from '../thread/messages.ts'
import { type Clock, machineNow } from '../thread/running-clock.ts'
import { openApiKeys } from './api-keys.ts'
import { page } from './banner.ts'
import { openLimitStore } from './limit-store.ts'
import { openPurses, type Purses, type SharedPurses } from './purses.ts'

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
  // All of them: the methods are told how much they may.
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
  /** Served beside those that every node has. */
  readonly methods: readonly Method[]
  /** In place of those of these names. */
  readonly instead?: readonly Method[]
  /** There are controls of the chain; left out: where there are further methods. */
  readonly hasControls?: boolean
  /** Of the node that has the chain before this one's first block. */
  readonly legacyUrl: string | undefined
  /** Fetches state; undefined: all of it is here. */
  readonly lazy?: LazyState | undefined
  /** Asks the nodes that this one follows. */
  readonly forward?: Forward | undefined
  readonly mode?: StateMode | undefined
  /** What the status page says of where blocks come from; undefined: there is no such page. */
  readonly pageMode?: PageMode | undefined
  readonly syncing: () => Syncing
  /** What clients may hold, over several fronts; left out: this one counts it alone. */
  readonly caps?: OpenCaps | undefined
  /** undefined: there is no /feed. */
  readonly feed: FeedHub | undefined
  /** Of new replicas; undefined: nobody copies this node. */
  readonly bootstrap?: ServerOptions['bootstrap']
  readonly readiness: (maxLagMs?: number) => ToldReadiness | Promise<ToldReadiness>
  /** Hears what answers are made of; undefined: nobody does. */
  readonly courses?: Courses | undefined
  /** Takes down what clients ask. */
  readonly requests?: Pick<RequestTaking, 'answerer'> | undefined
  readonly metrics: FrontMetrics
  /** Counts of fronts that are one to their clients; undefined: this one is alone. */
  readonly purses?: SharedPurses | undefined
  readonly filterHome?: FilterHome | undefined
  readonly shownNotes?: ShownNotes | undefined
  readonly report: Report
  readonly log: NodeContext['log']
  /** Of the process: what its callers may take is counted by it. */
  readonly now: Clock
}

/** Where clients find it. */
export type Place = { readonly port: number; readonly url: string }

export interface Front {
  readonly server: Server
  readonly answer: Answerer
  /** Of this thread. */
  readonly filters: OwnFilters
  /** Gives the port taken and the address it is reached by. @throws the system's error. */
  listen(port: number, reusePort?: boolean): Promise<Place>
  /** A new record can be read. */
  published(): void
  /** One was published that clients are shown later. */
  arrived(): void
  close(): Promise<void>
  /** Reads the API keys again, and gives their number; undefined: their file has a problem. Left out: there are none. */
  readonly reloadKeys?: (() => number | undefined) | undefined
  /** The writer's messages, before what they tell is read. */
  hear(message: FromWriter): void
  /** undefined: not served. */
  readonly status: (StatusPage & Pick<Live, 'openInside'>) | undefined
  /** A call has run: its address owes for the worker's time. */
  readonly spent: (spent: Spent) => void
  readonly holds: () => Readonly<Record<string, number>>
  readonly stats: () => Readonly<Record<string, number>>
}

/** Methods that run the EVM run in the pool: this thread need not load one, which would take an eighth of a second of every start. */
const refuse = (): never => {
  throw new Error('the front runs no EVM')
}
const NO_ENGINE: Engine = { name: 'none', openSession: refuse, precompiles: refuse }

export async function createFront(parts: FrontParts): Promise<Front> {
  const { config, chain } = parts
  const [publishes, arrivals] = [createListeners(), createListeners()]
  publishes.add(arrivals.fire)
  const opened =
    config.apiKeys === undefined ? undefined : openApiKeys(config.apiKeys, parts.report)
  const store = await openLimitStore(config.limitStore, parts.report)
  const ofCallers = { keys: opened?.keys, store, shared: parts.purses, now: machineNow }
  const purses = openPurses({ ...parts, ...ofCallers })
  const rpc = openRpc(parts, purses, { onPublish: publishes.add, onArrival: arrivals.add })
  const newestRecord = () => parts.reader.newestRecord()
  const answer = parts.requests?.answerer(rpc.answer, newestRecord) ?? rpc.answer
  let url = ''
  const live = openLive({
    ...parts,
    ...{ limits: config.limits, flashblocks: rpc.flashblocks, version },
    hasControls: parts.hasControls ?? (config.methods === 'all' && parts.methods.length > 0),
  })
  const status = live && { ...createPageFiles(), live: live.open, openInside: live.openInside }
  const server = await openServer(parts, purses, {
    answer,
    page: () => page(chain, url),
    apiKeys: opened?.keys,
    status,
  })
  return {
    server,
    answer,
    filters: rpc.filters,
    status,
    hear: (message) => live?.hear(message),
    async listen(port, reusePort = false) {
      const { host } = config
      const taken = await server.listen({ host, port, ...(reusePort && { reusePort }) })
      url = urlOf(host, taken)
      return { port: taken, url }
    },
    published: publishes.fire,
    arrived: arrivals.fire,
    reloadKeys:
      opened &&
      (() => {
        const { count, gone } = opened.reload() ?? {}
        if (gone !== undefined) server.closeCallers(gone)
        return count
      }),
    async close() {
      await server.close()
      store?.close()
    },
    spent({ address, cpuMs }) {
      const points = Math.floor(cpuMs / POINT_MS)
      if (points > 0) purses.limiter.owe(address, points)
    },
    holds() {
      const { hold, shown, places, receiptWaits } = rpc.stats()
      return {
        ...hold,
        ...{ waiting: receiptWaits, latest: shown.held, latestExpired: shown.expired },
        ...{ place: places.held, placeWaiting: places.waiting, placeExpired: places.expired },
      }
    },
    stats: () => ({
      ...statsOfServer(server),
      ...statsOfPurses(purses),
      ...(live === undefined ? {} : { pageViewers: live.viewers }),
      ...statsOfRpc(rpc.stats()),
    }),
  }
}

function openRpc(
  parts: FrontParts,
  { charging }: Purses,
  { onPublish, onArrival }: Pick<Parameters<typeof createRpc>[0], 'onPublish' | 'onArrival'>,
): Rpc {
  const { config, report } = parts
  return createRpc({
    reader: parts.reader,
    transactions: parts.courses?.transactions(parts.transactions) ?? parts.transactions,
    promises: parts.promises,
    accounts: parts.accounts,
    executor: parts.executor,
    chain: parts.chain,
    engine: NO_ENGINE,
    ...{ limits: config.limits, caps: parts.caps },
    methods: { standard: servedBy(parts, 'standard'), flashblocks: servedBy(parts, 'flashblocks') },
    limiter: charging,
    limitBy: config.limitBy,
    receiptHoldMs: config.receiptHold,
    ...{ filterHome: parts.filterHome, shownNotes: parts.shownNotes },
    legacyUrl: parts.legacyUrl,
    ...{ lazy: parts.lazy, forward: parts.forward, mode: parts.mode },
    clientVersion: `flashnode/v${version()}/${process.platform}-${process.arch}/node${process.version}`,
    ...{ onPublish, onArrival },
    syncing: parts.syncing,
    now: parts.now,
    onBug: (error, method) => report('call_failed', { err: error, method: loggable(method) }),
    onCall: onCallOf(parts),
    slowCalls: slowCallsOf(parts),
    provenance: parts.courses?.provenance,
  })
}

/** Counts each call, and logs it at the levels at which somebody looks for one request. */
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
  return { ms, hasParams, tell: (call) => log.info(call, 'a slow call') }
}

function openServer(
  { config, caps, feed, bootstrap, readiness, report, now }: FrontParts,
  { charging, visiting }: Purses,
  served: Pick<ServerOptions, 'answer' | 'page' | 'apiKeys' | 'status'>,
): Promise<Server> {
  return createServer({
    ...served,
    http: config.http,
    ...{ limits: config.limits, caps },
    cors: config.cors,
    hosts: [...config.hosts, config.host],
    trustedProxies: trustedProxies(config.trustProxy),
    namingProxies: trustedProxies(config.proxyProtocol),
    onUnnamed: unnamedOf(report, now),
    limiter: charging,
    visits: visiting,
    onBug: (error) => report('answer_not_sent', { err: error }),
    feed: feed?.door,
    ...{ bootstrap, readiness },
    now,
    clock: () => Date.now(),
  })
}

/** A proxy that is set up wrongly is wrong with each connection: all are counted in `socketsUnnamed`. */
function unnamedOf(report: Report, now: () => number): ServerOptions['onUnnamed'] {
  const say = createSampler(SAID_MS, now, (reason) => report('client_not_named', { reason }))
  return (why, proxy) => say(why, `${proxy}: ${why}`)
}
const SAID_MS = 10_000

function statsOfServer({ inFlight, webSockets, unsent, encoding, sockets }: Server) {
  return {
    inFlight,
    webSockets,
    unsent: unsent.answers,
    unsentBytes: unsent.bytes,
    unsentCut: unsent.cut,
    compressed: encoding.answers,
    compressedFromBytes: encoding.from,
    compressedToBytes: encoding.to,
    compressRefused: encoding.refused,
    socketsRefused: sockets.refused,
    socketsEvicted: sockets.evicted,
    socketsLate: sockets.late,
    socketsCutOff: sockets.cutOff,
    socketsUnnamed: sockets.unnamed,
  }
}

const statsOfPurses = ({ limiter, visits, store }: Purses) => ({
  limiterKeys: limiter.known,
  pointsCharged: limiter.charged + visits.charged,
  ...(store === undefined ? {} : store()),
})

function statsOfRpc(stats: RpcStats) {
  const { filters, subscriptions, subscribersSlow, syncSends, cache, texts } = stats
  const { legacy, upstream, rounds } = stats
  return {
    ...{ filters, subscriptions, subscribersSlow, syncSends },
    cacheHits: cache.hits,
    cacheMisses: cache.misses,
    ...{ textHits: texts.hits, textMisses: texts.misses, textBytes: texts.bytes },
    cacheCarried: cache.carried,
    cacheDroppedWritten: cache.dropped.written,
    cacheDroppedBlock: cache.dropped.block,
    cacheDroppedChain: cache.dropped.chain,
    cacheDroppedUntold: cache.dropped.untold,
    ...(legacy === undefined
      ? {}
      : {
          legacyCalls: legacy.calls,
          legacyErrors: legacy.errors,
          legacyInFlight: legacy.inFlight,
        }),
    ...(upstream === undefined
      ? {}
      : {
          forwarded: upstream.calls,
          forwardErrors: upstream.errors,
          forwardsInFlight: upstream.inFlight,
        }),
    ...(rounds === undefined
      ? {}
      : { fetches: rounds.fetches, fetchedKeys: rounds.keys, withoutState: rounds.without }),
  }
}

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
