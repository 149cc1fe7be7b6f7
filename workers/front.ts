/** What lives on the front thread for JSON-RPC: services, dispatch and the server. */
import type { ChainReader, Endpoint } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import { trustedProxies } from '../rpc/address.ts'
import type { Executor } from '../rpc/executor.ts'
import type { FeedHub } from '../rpc/feed.ts'
import { type Charge, createLimiter, type Limiter } from '../rpc/limiter.ts'
import type { Methods } from '../rpc/method.ts'
import { depositMethod } from '../rpc/methods/development.ts'
import { methodsOf } from '../rpc/methods/index.ts'
import { createRpc } from '../rpc/rpc.ts'
import { createServer, type Readiness, type Server } from '../rpc/server.ts'
import type { AccountService, PoolService } from '../rpc/services.ts'
import { page } from './banner.ts'
import { type Config, version } from './config.ts'
import type { Deposits } from './deposits.ts'
import { type Log, loggable } from './log.ts'
import type { Metrics } from './metrics.ts'

export type FrontParts = {
  readonly config: Config
  readonly chain: ChainSpec
  readonly reader: ChainReader
  readonly executor: Executor
  readonly pool: PoolService
  readonly accounts: AccountService
  /** Serves dev_deposit; undefined: nobody can deposit here. */
  readonly deposit: Deposits['send'] | undefined
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
  /** Gives the port taken and the address it is reached by. @throws the system's error. */
  listen(port: number): Promise<{ readonly port: number; readonly url: string }>
  /** A new record can be read. */
  published(): void
  readonly holds: () => Readonly<Record<string, number>>
  readonly stats: () => Readonly<Record<string, number>>
}

/** Methods that run the EVM run in the pool: this thread need not load one, which would take an eighth of a second of every start. */
const refuse = (): never => {
  throw new Error('the front runs no EVM')
}
const NO_ENGINE: Engine = { name: 'none', openSession: refuse, precompiles: refuse }

export async function createFront(parts: FrontParts): Promise<Front> {
  const { config, chain, reader, metrics, log } = parts
  const { limits } = config
  const publishes = createListeners()
  const limiter = createLimiter({
    perSecond: config.rateLimit === 'off' ? undefined : config.rateLimit,
    keys: limits.limiterKeys,
  })
  const rpc = createRpc({
    reader,
    pool: parts.pool,
    accounts: parts.accounts,
    executor: parts.executor,
    chain,
    engine: NO_ENGINE,
    limits,
    methods: { standard: servedBy(parts, 'standard'), flashblocks: servedBy(parts, 'flashblocks') },
    limiter: counted(limiter, metrics),
    receiptHoldMs: config.receiptHold,
    legacyUrl: config.legacyRpc,
    clientVersion: `flashnode/v${version()}/${process.platform}-${process.arch}/node${process.version}`,
    onPublish: publishes.add,
    // A development chain and a directory that is served as it is are never behind anybody.
    syncing: () => false,
    now: parts.now,
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
    answer: rpc.answer,
    onBug: (error) => log.error({ err: error }, 'an answer could not be sent'),
    feed: parts.feed?.open,
    isOwn: (headers) => parts.feed?.isOwn(headers) ?? false,
    readiness: parts.readiness,
    page: () => page(chain, url),
  })
  return {
    server,
    async listen(port) {
      const taken = await server.listen({ host, port })
      url = urlOf(host, taken)
      return { port: taken, url }
    },
    published: publishes.fire,
    holds() {
      const { hold, shown, receiptWaits } = rpc.stats()
      return { ...hold, waiting: receiptWaits, latest: shown.held, latestExpired: shown.expired }
    },
    stats() {
      const { filters, subscriptions, syncSends, cache, legacy } = rpc.stats()
      const { inFlight, webSockets, unsent } = server
      const { hits, misses } = cache
      return {
        inFlight,
        webSockets,
        unsent: unsent.answers,
        unsentBytes: unsent.bytes,
        unsentCut: unsent.cut,
        limiterKeys: limiter.known,
        filters,
        subscriptions,
        syncSends,
        cacheHits: hits,
        cacheMisses: misses,
        ...(legacy === undefined
          ? {}
          : {
              legacyCalls: legacy.calls,
              legacyErrors: legacy.errors,
              legacyInFlight: legacy.inFlight,
            }),
      }
    },
  }
}

function servedBy({ config, deposit }: FrontParts, endpoint: Endpoint): Methods {
  const served = methodsOf(endpoint, config.methods, config.traceModeOptional)
  if (deposit === undefined || config.methods === 'standard') return served
  const method = depositMethod(deposit)
  return new Map([...served, [method.name, method]])
}

const urlOf = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`

function counted(limiter: Limiter, metrics: Metrics): Pick<Limiter, 'charge'> {
  return {
    charge(address, points) {
      const note = (charge: Charge): Charge => {
        if (!charge.isAllowed) metrics.refused(points)
        return charge
      }
      const charge = limiter.charge(address, points)
      return charge instanceof Promise ? charge.then(note) : note(charge)
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
