/** Puts the JSON-RPC side together: what main hands in, and what the sockets and the metrics get. */
import type { ChainReader, Endpoint } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import { createCanonicalFeed } from './canonical.ts'
import { createCaps } from './caps.ts'
import { createAnswerer } from './dispatch.ts'
import type { Answerer } from './exchange.ts'
import type { Executor } from './executor.ts'
import { createFilters } from './filters.ts'
import { createReceiptHold, type HoldStats } from './hold.ts'
import { createLegacy, type LegacyStats } from './legacy.ts'
import type { Limiter } from './limiter.ts'
import type { Limits } from './limits.ts'
import type { Methods } from './method.ts'
import { createReceiptWaits } from './receipt-waits.ts'
import type { RunnerOptions } from './run.ts'
import { readNewest } from './scope.ts'
import type { AccountService, FrontServices, PoolService } from './services.ts'
import { shareViews } from './shared-views.ts'
import { createShownReceipts, type ShownStats } from './shown.ts'
import { createSubscriptions } from './subscriptions.ts'
import { createTurns } from './turns.ts'

export type RpcOptions = Pick<RunnerOptions, 'onBug' | 'onCall'> &
  Pick<FrontServices, 'onPublish' | 'syncing' | 'now' | 'clientVersion'> & {
    readonly reader: ChainReader
    readonly pool: PoolService
    readonly accounts: AccountService
    readonly executor: Executor
    readonly limiter: Pick<Limiter, 'charge'>
    readonly chain: ChainSpec
    readonly engine: Engine
    readonly limits: Limits
    /** Of each endpoint (methods/index.ts: methodsOf). */
    readonly methods: Readonly<Record<Endpoint, Methods>>
    /** 0: receipts are never held. */
    readonly receiptHoldMs: number
    /** Of the node that has the chain before this one's first block. */
    readonly legacyUrl?: string | undefined
  }

export type Rpc = {
  readonly answer: Answerer
  readonly stats: () => RpcStats
}
export type RpcStats = {
  readonly filters: number
  readonly filterBytes: number
  readonly subscriptions: number
  readonly receiptWaits: number
  readonly syncSends: number
  readonly hold: HoldStats
  readonly shown: ShownStats
  readonly legacy: LegacyStats | undefined
  readonly cache: {
    readonly hits: number
    readonly misses: number
    readonly items: number
    readonly bytes: number
  }
}

/** `reader` must be able to lease: the writer has published its first record. */
export function createRpc(options: RpcOptions): Rpc {
  const { pool, limits, onPublish, now, syncing } = options
  const reader = shareViews(options.reader, onPublish)
  const canonical = createCanonicalFeed({ reader, onPublish })
  const waits = createReceiptWaits({ reader, onPublish })
  const shown = createShownReceipts({ reader, onPublish, limits })
  const filters = createFilters({ canonical, pool, limits, now })
  const subscriptions = createSubscriptions({ canonical, pool, onPublish, syncing, limits })
  const syncSends = createCaps({
    perClient: limits.syncSendsPerClient,
    total: limits.syncSendsTotal,
  })
  const hold = createReceiptHold({
    pool,
    waits,
    isVisible: (hash) =>
      readNewest(reader, 'flashblocks', (view) => view.findTransaction(hash) !== undefined),
    holdMs: options.receiptHoldMs,
    perClient: limits.holdsPerClient,
    total: limits.holdsTotal,
  })
  const services: FrontServices = {
    reader,
    pool,
    accounts: options.accounts,
    filters,
    subscriptions,
    waits,
    shown,
    syncSends,
    turns: createTurns(),
    methods: options.methods,
    clientVersion: options.clientVersion,
    onPublish,
    syncing,
    now,
  }
  const { legacyUrl } = options
  const legacy =
    legacyUrl === undefined
      ? undefined
      : createLegacy({ url: legacyUrl, cutoff: options.chain.genesisNumber, limits })
  const answer = createAnswerer({ ...options, services, legacy, hold, shown })
  return {
    answer,
    stats: () => ({
      filters: filters.size,
      filterBytes: filters.bytes,
      subscriptions: subscriptions.size,
      receiptWaits: waits.size,
      syncSends: syncSends.total,
      hold: hold.stats,
      shown: shown.stats,
      legacy: legacy?.stats,
      cache: answer.cache.stats,
    }),
  }
}
