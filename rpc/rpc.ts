/** Puts the JSON-RPC side together: what main hands in, and what the sockets and the metrics get. */
import { readNewest } from '../engine/chain/newest.ts'
import type { ChainReader, Endpoint } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import type { BodyRunnerOptions } from './dispatch/body-runner.ts'
import type { CacheStats } from './dispatch/cache.ts'
import type { LegacyStats } from './dispatch/call.ts'
import { createAnswerer } from './dispatch/dispatch.ts'
import { type RoundStats, Rounds } from './dispatch/rounds.ts'
import { shareViews } from './dispatch/shared-views.ts'
import { type SlowCallOptions, SlowCalls } from './dispatch/slow-calls.ts'
import { createCanonicalFeed } from './events/canonical.ts'
import { createFilters, type Filters, type OwnFilters } from './events/filters.ts'
import { createFlashblockFeed, type FlashblockFeed } from './events/flashblock-feed.ts'
import { createReceiptHold, type HoldStats } from './events/hold.ts'
import { createPlaceWaits, type PlaceWaitStats } from './events/min-flashblock.ts'
import { createReceiptWaits } from './events/receipt-waits.ts'
import { createShownReceipts, type ShownStats } from './events/shown.ts'
import type { ShownNotes } from './events/shown-notes.ts'
import { createSubscriptions } from './events/subscriptions.ts'
import { type KeptTexts, keepTexts } from './json/kept-texts.ts'
import { inTurn } from './legacy/in-turn.ts'
import { createLegacy } from './legacy/legacy.ts'
import { createUpstream } from './legacy/upstream.ts'
import type { Limiter } from './limiter/limiter.ts'
import type { LimitBy } from './limiter/points.ts'
import type { Methods } from './method/method.ts'
import { priceBy, priceList } from './method/price.ts'
import type { Budgets, FrontServices } from './method/services.ts'
import { openOwnCaps } from './seam/caps.ts'
import type { Answerer } from './seam/exchange.ts'
import type { Executor } from './seam/executor.ts'
import type { Limits } from './seam/limits.ts'
import type {
  AccountService,
  Forward,
  LazyState,
  PromiseService,
  StateMode,
  TransactionService,
} from './seam/ports.ts'
import type { Provenance } from './seam/provenance.ts'
import type { OpenCaps } from './seam/shared-caps.ts'
import { createTurns } from './seam/turns.ts'

export type RpcOptions = Pick<BodyRunnerOptions, 'onBug' | 'onCall'> &
  Pick<FrontServices, 'onPublish' | 'syncing' | 'now' | 'clientVersion'> & {
    /** Also of what clients are not shown yet; left out: there is no such thing. */
    readonly onArrival?: FrontServices['onPublish'] | undefined
    readonly reader: ChainReader
    readonly transactions: TransactionService
    readonly promises: PromiseService
    readonly accounts: AccountService
    readonly executor: Executor
    /** undefined: the node has all state. */
    readonly lazy?: LazyState | undefined
    /** The nodes that this one follows. */
    readonly forward?: Forward | undefined
    /** What its state is worth; undefined: nothing is said of it. */
    readonly mode?: StateMode | undefined
    readonly limiter: Pick<Limiter, 'charge' | 'held' | 'standing'>
    readonly limitBy: LimitBy
    /** undefined: nobody is told of calls that are slow. */
    readonly slowCalls?: SlowCallOptions | undefined
    /** undefined: nobody asks where answers come from. */
    readonly provenance?: Provenance | undefined
    readonly chain: ChainSpec
    readonly engine: Engine
    readonly limits: Limits
    /** What clients may hold; left out: this front counts it alone. */
    readonly caps?: OpenCaps | undefined
    /** Of each endpoint (methods/index.ts: methodsOf). */
    readonly methods: Readonly<Record<Endpoint, Methods>>
    /** What clients were shown; left out: this front knows it alone. */
    readonly shownNotes?: ShownNotes | undefined
    /** Of filters that other threads have as well; left out: this one has all. */
    readonly filterHome?: FilterHome | undefined
    /** 0: receipts are never held. */
    readonly receiptHoldMs: number
    /** Of the node that has the chain before this one's first block. */
    readonly legacyUrl?: string | undefined
  }

/** Filters of several threads: each knows by an id who has it. */
export type FilterHome = {
  /** Of the ids of this thread's. */
  readonly idPrefix: string
  /** All of them, as this thread asks for them. */
  readonly all: (own: OwnFilters) => Filters
}

export type Rpc = {
  /** Of this thread. */
  readonly filters: OwnFilters
  readonly answer: Answerer
  /** What subscribers of flashblocks are told. */
  readonly flashblocks: FlashblockFeed
  readonly stats: () => RpcStats
}
export type RpcStats = {
  readonly filters: number
  readonly filterBytes: number
  readonly subscriptions: number
  /** Clients that read too slowly for theirs. */
  readonly subscribersSlow: number
  readonly receiptWaits: number
  readonly syncSends: number
  readonly hold: HoldStats
  readonly shown: ShownStats
  readonly places: PlaceWaitStats
  readonly legacy: LegacyStats | undefined
  readonly upstream: LegacyStats | undefined
  /** undefined: the node has all state. */
  readonly rounds: RoundStats | undefined
  readonly cache: CacheStats
  readonly texts: KeptTexts['stats']
}

/** `reader` must be able to lease: the writer has published its first record. */
export function createRpc(options: RpcOptions): Rpc {
  const { transactions, methods, limits, onPublish, now, syncing, caps = openOwnCaps } = options
  const { onArrival = onPublish, shownNotes: notes, filterHome } = options
  const reader = shareViews(options.reader, onPublish)
  const canonical = createCanonicalFeed({ reader, onPublish })
  const waits = createReceiptWaits({ reader, onPublish, now, onDeparted: transactions.onDeparted })
  const shown = createShownReceipts({ reader, onPublish, limits, caps, notes, now })
  const places = createPlaceWaits({ reader, onArrival, limits, caps, now })
  const { idPrefix } = filterHome ?? {}
  const filters = createFilters({ canonical, transactions, limits, caps, idPrefix, now })
  const feedOf = (endpoint: Endpoint) =>
    createFlashblockFeed({ reader, endpoint, onPublish, limits, now })
  const feeds = { standard: feedOf('standard'), flashblocks: feedOf('flashblocks') }
  const around = { canonical, transactions, onPublish, syncing, limits }
  const subscriptions = createSubscriptions({ ...around, flashblocks: feeds })
  const syncSends = caps('syncSends', {
    perClient: limits.syncSendsPerClient,
    total: limits.syncSendsTotal,
  })
  const hold = createReceiptHold({
    ...{ transactions, waits, limits, caps },
    isVisible: (hash) =>
      readNewest(reader, 'flashblocks', (view) => view.findTransaction(hash) !== undefined),
    holdMs: options.receiptHoldMs,
  })
  const texts = keepTexts(limits.keptTextBytes)
  const services: FrontServices = {
    ...{ reader, texts, transactions },
    promises: options.promises,
    accounts: options.accounts,
    ...{ lazy: options.lazy, forward: options.forward, mode: options.mode },
    filters: filterHome?.all(filters) ?? filters,
    subscriptions,
    waits,
    shown,
    syncSends,
    turns: createTurns(),
    methods,
    modules: { standard: modulesOf(methods.standard), flashblocks: modulesOf(methods.flashblocks) },
    ...{ clientVersion: options.clientVersion, budgets: budgetsOf(options) },
    onPublish,
    syncing,
    now,
  }
  const { lazy } = options
  const { legacy, upstream, elsewhere } = otherNodes({ ...options, caps })
  const rounds = new Rounds({ lazy, limits, now })
  const holding = { hold, shown, places, ...accounting(options) }
  const answer = createAnswerer({ ...options, ...holding, services, rounds, legacy: elsewhere })
  return {
    ...{ answer, filters },
    flashblocks: feeds.flashblocks,
    stats: () => ({
      filters: filters.size,
      filterBytes: filters.bytes,
      subscriptions: subscriptions.size,
      subscribersSlow: subscriptions.slow,
      receiptWaits: waits.size,
      syncSends: syncSends.here,
      hold: hold.stats,
      shown: shown.stats,
      places: places.stats,
      legacy: legacy?.stats,
      upstream: upstream?.stats,
      rounds: lazy && rounds.stats,
      ...{ cache: answer.cache.stats, texts: texts.stats },
    }),
  }
}

/** What calls cost, and who hears of those that took long. */
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

/** Who answers for what is older than this node. */
function otherNodes(options: RpcOptions & { readonly caps: OpenCaps }) {
  const { legacyUrl, lazy, forward, chain, provenance } = options
  const { limits, caps, now } = options
  const isOlderThere = lazy !== undefined && forward !== undefined
  const upstream = isOlderThere
    ? createUpstream({ forward, limits, caps, provenance, now })
    : undefined
  const legacy =
    legacyUrl === undefined
      ? undefined
      : createLegacy({ url: legacyUrl, cutoff: chain.genesisNumber, limits, caps, provenance, now })
  const elsewhere = legacy && upstream ? inTurn(legacy, upstream) : (legacy ?? upstream)
  return { legacy, upstream, elsewhere }
}

function modulesOf(methods: Methods): Readonly<Record<string, string>> {
  const names = new Set([...methods.keys()].map((name) => name.split(/[_.]/, 1)[0]!))
  return Object.fromEntries([...names].map((name) => [name, '1.0']))
}
