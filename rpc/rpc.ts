/**
 * Builds the JSON-RPC side of a front thread from its parts; the sockets and metrics use the
 * result.
 */
import type { ChainReader, Endpoint } from '../engine/chain/types.ts'
import { readNewest } from '../engine/chain/view-reads.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { openLocalConcurrencyLimit } from './core/concurrency-limit.ts'
import type { Responder } from './core/exchange.ts'
import type { Executor } from './core/executor.ts'
import type { Limits } from './core/limits.ts'
import type {
  AccountService,
  Forward,
  LazyState,
  PromiseService,
  StateMode,
  TransactionService,
} from './core/ports.ts'
import type { BodyRunnerOptions } from './dispatch/body-runner.ts'
import type { CacheStats } from './dispatch/cache.ts'
import type { ForwardingStats } from './dispatch/call.ts'
import { createResponder } from './dispatch/dispatch.ts'
import type { Provenance } from './dispatch/provenance.ts'
import { type RoundStats, Rounds } from './dispatch/rounds.ts'
import { shareViews } from './dispatch/shared-views.ts'
import { type SlowCallOptions, SlowCalls } from './dispatch/slow-calls.ts'
import { createCanonicalFeed } from './events/canonical.ts'
import { createFilters, type Filters, type OwnFilters } from './events/filters.ts'
import { createFlashblockFeed, type FlashblockFeed } from './events/flashblock-feed.ts'
import { createFlashblockWaits, type FlashblockWaitStats } from './events/min-flashblock.ts'
import { createReceiptHold, type HoldStats } from './events/receipt-hold.ts'
import { createReceiptWaits } from './events/receipt-waits.ts'
import type { SeenAccounts } from './events/seen-accounts.ts'
import { createSeenReceipts, type SeenStats } from './events/seen-receipts.ts'
import { createSubscriptions } from './events/subscriptions.ts'
import { inTurn } from './forwarding/in-turn.ts'
import { createForwarding } from './forwarding/older-chain.ts'
import { createUpstream } from './forwarding/upstream.ts'
import { createTextCache, type TextCache } from './json/text-cache.ts'
import type { Limiter } from './limiter/limiter.ts'
import type { LimitBy } from './limiter/points.ts'
import type { OpenConcurrencyLimit } from './limiter/shared-concurrency-limits.ts'
import type { Methods } from './method/method.ts'
import { priceBy, priceList } from './method/price.ts'
import type { Budgets, FrontServices } from './method/services.ts'
import { createTurns } from './method/turns.ts'

export type RpcOptions = Pick<BodyRunnerOptions, 'onBug' | 'onCall'> &
  Pick<FrontServices, 'onPublish' | 'syncing' | 'now' | 'clientVersion'> & {
    /**
     * Listeners that also run for snapshots that clients see later; left out without a flashblock
     * lag.
     */
    readonly onArrival?: FrontServices['onPublish'] | undefined
    readonly reader: ChainReader
    readonly transactions: TransactionService
    readonly promises: PromiseService
    readonly accounts: AccountService
    readonly executor: Executor
    /** undefined when the node has all state. */
    readonly lazy?: LazyState | undefined
    /** Nodes that this node follows. */
    readonly forward?: Forward | undefined
    /** Trust in the state; undefined leaves it out. */
    readonly mode?: StateMode | undefined
    readonly limiter: Pick<Limiter, 'charge' | 'throttled' | 'standing'>
    readonly limitBy: LimitBy
    /** undefined disables the report of slow calls. */
    readonly slowCalls?: SlowCallOptions | undefined
    /** undefined when nobody needs the sources of responses. */
    readonly provenance?: Provenance | undefined
    readonly chain: ChainSpec
    readonly engine: Engine
    readonly limits: Limits
    /** Concurrency limits shared by several fronts; left out when this front counts alone. */
    readonly concurrencyLimits?: OpenConcurrencyLimit | undefined
    /** Methods by endpoint (methods/index.ts: methodsOf). */
    readonly methods: Readonly<Record<Endpoint, Methods>>
    /**
     * Accounts in receipts that clients have seen, shared by several fronts; left out when this
     * front is alone.
     */
    readonly seenAccounts?: SeenAccounts | undefined
    /** Filters shared with other threads; left out when this front has all filters. */
    readonly filterHome?: FilterHome | undefined
    /** 0 disables the receipt hold. */
    readonly receiptHoldMs: number
    /** URL of the node that has the chain before this node's first block. */
    readonly forwardingUrl?: string | undefined
  }

/** Filters of several threads; a filter's id names its thread. */
export type FilterHome = {
  /** Prefix of this thread's filter ids. */
  readonly idPrefix: string
  /** Adapts this thread's filters to all threads' filters. */
  readonly all: (own: OwnFilters) => Filters
}

export type Rpc = {
  /** Filters of this thread. */
  readonly filters: OwnFilters
  readonly respond: Responder
  /** Events for subscribers of flashblocks. */
  readonly flashblocks: FlashblockFeed
  readonly stats: () => RpcStats
}
export type RpcStats = {
  readonly filters: number
  readonly filterBytes: number
  readonly subscriptions: number
  /** Subscribers that read too slowly. */
  readonly subscribersSlow: number
  readonly receiptWaits: number
  readonly syncSends: number
  readonly hold: HoldStats
  readonly seen: SeenStats
  readonly flashblockWaits: FlashblockWaitStats
  readonly forwarding: ForwardingStats | undefined
  readonly upstream: ForwardingStats | undefined
  /** undefined when the node has all state. */
  readonly rounds: RoundStats | undefined
  readonly cache: CacheStats
  readonly texts: TextCache['stats']
}

/**
 * Builds the JSON-RPC side. The writer must have published its first snapshot, because `reader`
 * must be able to lease.
 */
export function createRpc(options: RpcOptions): Rpc {
  const { transactions, methods, limits, onPublish, now, syncing } = options
  const { onArrival = onPublish, concurrencyLimits = openLocalConcurrencyLimit } = options
  const { lazy, seenAccounts, filterHome } = options
  const reader = shareViews(options.reader, onPublish)
  const waits = createReceiptWaits({ reader, onPublish, now, onDeparted: transactions.onDeparted })
  const bounded = { limits, concurrencyLimits, now }
  const seen = createSeenReceipts({ reader, onPublish, seenAccounts, ...bounded })
  const flashblockWaits = createFlashblockWaits({ reader, onArrival, ...bounded })
  const { filters, feeds, subscriptions } = openEvents(reader, { ...options, concurrencyLimits })
  const syncSends = concurrencyLimits('syncSends', {
    perClient: limits.syncSendsPerClient,
    total: limits.syncSendsTotal,
  })
  const isVisible = (hash: Bytes) =>
    readNewest(reader, 'flashblocks', (view) => view.findTransaction(hash) !== undefined)
  const holdMs = options.receiptHoldMs
  const hold = createReceiptHold({ ...bounded, transactions, waits, isVisible, holdMs })
  const texts = createTextCache(limits.keptTextBytes)
  const services: FrontServices = {
    reader,
    texts,
    transactions,
    promises: options.promises,
    accounts: options.accounts,
    lazy: options.lazy,
    forward: options.forward,
    mode: options.mode,
    filters: filterHome?.all(filters) ?? filters,
    subscriptions,
    waits,
    seen,
    syncSends,
    turns: createTurns(),
    methods,
    modules: { standard: modulesOf(methods.standard), flashblocks: modulesOf(methods.flashblocks) },
    clientVersion: options.clientVersion,
    budgets: budgetsOf(options),
    onPublish,
    syncing,
    now,
  }
  const { forwarding, upstream, elsewhere } = otherNodes({ ...options, concurrencyLimits })
  const rounds = new Rounds({ lazy, limits, now })
  const parts = { hold, seen, flashblockWaits, services, rounds, ...accounting(options) }
  const respond = createResponder({ ...options, ...parts, forwarding: elsewhere })
  return {
    respond,
    filters,
    flashblocks: feeds.flashblocks,
    stats: () => ({
      filters: filters.size,
      filterBytes: filters.bytes,
      subscriptions: subscriptions.size,
      subscribersSlow: subscriptions.slow,
      receiptWaits: waits.size,
      syncSends: syncSends.ownCount,
      hold: hold.stats,
      seen: seen.stats,
      flashblockWaits: flashblockWaits.stats,
      forwarding: forwarding?.stats,
      upstream: upstream?.stats,
      rounds: lazy && rounds.stats,
      cache: respond.cache.stats,
      texts: texts.stats,
    }),
  }
}

/** Opens filters, flashblock feeds and subscriptions. */
function openEvents(
  reader: ChainReader,
  options: RpcOptions & { readonly concurrencyLimits: OpenConcurrencyLimit },
) {
  const { transactions, onPublish, limits, now, syncing, filterHome, concurrencyLimits } = options
  const canonical = createCanonicalFeed({ reader, onPublish })
  const { idPrefix } = filterHome ?? {}
  const bounded = { limits, concurrencyLimits, now }
  const filters = createFilters({ canonical, transactions, idPrefix, ...bounded })
  const feedOf = (endpoint: Endpoint) =>
    createFlashblockFeed({ reader, endpoint, onPublish, limits, now })
  const feeds = { standard: feedOf('standard'), flashblocks: feedOf('flashblocks') }
  const around = { canonical, transactions, onPublish, syncing, limits }
  const subscriptions = createSubscriptions({ ...around, flashblocks: feeds })
  return { filters, feeds, subscriptions }
}

/** Creates the prices of calls and the report of slow ones. */
function accounting({ limitBy, slowCalls, limits, now }: RpcOptions) {
  const price = priceBy(limitBy)
  return { price, slow: slowCalls && new SlowCalls({ ...slowCalls, price, limits, now }) }
}

function budgetsOf({ limiter, limitBy, methods, limits }: RpcOptions): Budgets {
  const price = priceBy(limitBy)
  return {
    by: limitBy,
    standing: (address) => limiter.standing(address),
    prices: {
      standard: priceList(methods.standard, price, limits),
      flashblocks: priceList(methods.flashblocks, price, limits),
    },
  }
}

/** Creates the forwarding to nodes that have older history. */
function otherNodes(options: RpcOptions & { readonly concurrencyLimits: OpenConcurrencyLimit }) {
  const { forwardingUrl, lazy, forward, chain, provenance } = options
  const { limits, concurrencyLimits, now } = options
  const isOlderThere = lazy !== undefined && forward !== undefined
  const upstream = isOlderThere
    ? createUpstream({ forward, limits, concurrencyLimits, provenance, now })
    : undefined
  const forwarding =
    forwardingUrl === undefined
      ? undefined
      : createForwarding({
          url: forwardingUrl,
          cutoff: chain.genesisNumber,
          limits,
          concurrencyLimits,
          provenance,
          now,
        })
  const elsewhere = forwarding && upstream ? inTurn(forwarding, upstream) : (forwarding ?? upstream)
  return { forwarding, upstream, elsewhere }
}

function modulesOf(methods: Methods): Readonly<Record<string, string>> {
  const names = new Set([...methods.keys()].map((name) => name.split(/[_.]/, 1)[0]!))
  return Object.fromEntries([...names].map((name) => [name, '1.0']))
}
