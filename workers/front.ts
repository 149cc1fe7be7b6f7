/** What lives on the front thread for JSON-RPC: services, dispatch and the server. */
import type { ChainReader } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import { engineByName } from '../engine/evm/registry.ts'
import { trustedProxies } from '../rpc/address.ts'
import { createCanonicalFeed } from '../rpc/canonical.ts'
import { createCaps } from '../rpc/caps.ts'
import { createAnswerer } from '../rpc/dispatch.ts'
import type { Executor } from '../rpc/executor.ts'
import type { FeedHub } from '../rpc/feed.ts'
import { createFilters } from '../rpc/filters.ts'
import { createReceiptHold } from '../rpc/hold.ts'
import { createLimiter, type Limiter } from '../rpc/limiter.ts'
import { methodsOf } from '../rpc/methods/index.ts'
import { createReceiptWaits } from '../rpc/receipt-waits.ts'
import { readNewest } from '../rpc/scope.ts'
import { createServer, type Readiness, type Server } from '../rpc/server.ts'
import type { AccountService, FrontServices, PoolService } from '../rpc/services.ts'
import { createSubscriptions } from '../rpc/subscriptions.ts'
import { createTurns } from '../rpc/turns.ts'
import { page } from './banner.ts'
import { type Config, version } from './config.ts'
import { type Log, loggable } from './log.ts'
import type { Metrics } from './metrics.ts'

export type FrontParts = {
  readonly config: Config
  readonly chain: ChainSpec
  readonly reader: ChainReader
  readonly executor: Executor
  readonly pool: PoolService
  readonly accounts: AccountService
  /** undefined: there is no /feed. */
  readonly feed: FeedHub | undefined
  readonly readiness: () => Readiness
  readonly metrics: Metrics
  readonly log: Log
  /** Monotonic milliseconds. */
  readonly now: () => number
}

export interface Front {
  readonly server: Server
  /** A new record can be read. */
  published(): void
  readonly holds: () => Readonly<Record<string, number>>
  readonly stats: () => Readonly<Record<string, number>>
}

export async function createFront(parts: FrontParts): Promise<Front> {
  const { config, chain, reader, metrics, log } = parts
  const { limits } = config
  const publishes = createListeners()
  const services = createServices(parts, publishes.add)
  const hold = createReceiptHold({
    pool: services.pool,
    waits: services.waits,
    isVisible: (hash) =>
      readNewest(reader, 'flashblocks', (view) => view.findTransaction(hash) !== undefined),
    holdMs: config.receiptHold,
    perClient: limits.holdsPerClient,
    total: limits.holdsTotal,
  })
  const answer = createAnswerer({
    services,
    executor: parts.executor,
    chain,
    engine: engineByName(config.engine),
    limits,
    methods: services.methods,
    limiter: counted(
      createLimiter({
        perSecond: config.rateLimit === 'off' ? undefined : config.rateLimit,
        keys: limits.limiterKeys,
      }),
      metrics,
    ),
    hold,
    onBug: (error, method) => log.error({ err: error, method: loggable(method) }, 'a call failed'),
    onCall: metrics.call,
  })
  const { host, hosts } = config
  let url = ''
  const server = await createServer({
    limits,
    cors: config.cors,
    hosts: [...hosts, host],
    trustedProxies: trustedProxies(config.trustProxy),
    answer,
    feed: parts.feed?.open,
    isOwn: (headers) => parts.feed?.isOwn(headers) ?? false,
    readiness: parts.readiness,
    page: () => page(chain, url),
  })
  return {
    server: {
      ...server,
      get inFlight() {
        return server.inFlight
      },
      get webSockets() {
        return server.webSockets
      },
      async listen(address) {
        const port = await server.listen(address)
        url = urlOf(address.host, port)
        return port
      },
    },
    published: publishes.fire,
    holds: () => ({ ...hold.stats, waiting: services.waits.size }),
    stats: () => ({
      inFlight: server.inFlight,
      webSockets: server.webSockets,
      filters: services.filters.size,
      subscriptions: services.subscriptions.size,
    }),
  }
}

export const urlOf = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`

function createServices(parts: FrontParts, onPublish: FrontServices['onPublish']): FrontServices {
  const { config, reader, pool, now } = parts
  const { limits } = config
  const canonical = createCanonicalFeed({ reader, onPublish })
  // A development chain and a directory that is served as it is are never behind anybody.
  const syncing = () => false as const
  return {
    reader,
    pool,
    accounts: parts.accounts,
    filters: createFilters({ canonical, pool, limits, now }),
    subscriptions: createSubscriptions({ canonical, pool, onPublish, syncing, limits }),
    waits: createReceiptWaits({ reader, onPublish }),
    syncSends: createCaps({ perClient: limits.syncSendsPerClient, total: limits.syncSendsTotal }),
    turns: createTurns(),
    methods: {
      standard: methodsOf('standard', config.methods),
      flashblocks: methodsOf('flashblocks', config.methods),
    },
    clientVersion: `flashnode/v${version()}/${process.platform}-${process.arch}/node${process.version}`,
    onPublish,
    syncing,
    now,
  }
}

function counted(limiter: Limiter, metrics: Metrics): Limiter {
  return {
    async charge(address, points) {
      const charge = await limiter.charge(address, points)
      if (!charge.isAllowed) metrics.refused(points)
      return charge
    },
  }
}

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
