/**
 * Services of the front thread for methods; rpc/rpc.ts builds them from the parts of
 * workers/front/front.ts.
 */
import type { ChainReader, Endpoint } from '../../engine/chain/types.ts'
import type { ConcurrencyLimit } from '../core/concurrency-limit.ts'
import type {
  AccountService,
  Forward,
  LazyState,
  PromiseService,
  StateMode,
  Syncing,
  TransactionService,
} from '../core/ports.ts'
import type { Filters } from '../events/filters.ts'
import type { ReceiptWaits } from '../events/receipt-waits.ts'
import type { SeenReceipts } from '../events/seen-receipts.ts'
import type { Subscriptions } from '../events/subscriptions.ts'
import type { JsonSchema, Param } from '../json/schema.ts'
import type { TextCache } from '../json/text-cache.ts'
import type { Standing } from '../limiter/limiter.ts'
import type { LimitBy } from '../limiter/points.ts'
import type { Turns } from './turns.ts'

/** Public description of a method. */
export type DescribedMethod = {
  readonly name: string
  readonly summary: string
  readonly params: readonly Param[]
  readonly result: { readonly name: string; readonly schema: JsonSchema }
}
export type DescribedMethods = ReadonlyMap<string, DescribedMethod>

/** Budgets of callers. */
export interface Budgets {
  readonly by: LimitBy
  /** Points of an address for one second; undefined without a limit. It never rejects. */
  standing(address: string): Promise<Standing | undefined>
  /** Points of a call by method, where it takes more than one. */
  readonly prices: Readonly<Record<Endpoint, Readonly<Record<string, number>>>>
}

export type FrontServices = {
  readonly reader: ChainReader
  /** JSON texts of blocks and their contents. */
  readonly texts: TextCache
  readonly transactions: TransactionService
  readonly promises: PromiseService
  readonly accounts: AccountService
  /** undefined when the node has all state. */
  readonly lazy: LazyState | undefined
  /**
   * Nodes that take transactions and have older history; undefined when this node does so alone.
   */
  readonly forward: Forward | undefined
  /** Mode of the state, for rpc.discover. */
  readonly mode: StateMode | undefined
  readonly filters: Filters
  readonly subscriptions: Subscriptions
  readonly waits: ReceiptWaits
  readonly seen: SeenReceipts
  /** Limit of concurrent calls that wait for a transaction's inclusion. */
  readonly syncSends: ConcurrencyLimit
  /** Serializes actions with the same key: nonces of eth_sendTransaction by sender. */
  readonly turns: Turns
  /** Methods of this node, for rpc.discover. */
  readonly methods: Readonly<Record<Endpoint, DescribedMethods>>
  /** Versions of the served namespaces by name, the response of rpc_modules. */
  readonly modules: Readonly<Record<Endpoint, Readonly<Record<string, string>>>>
  /** Response of web3_clientVersion. */
  readonly clientVersion: string
  readonly budgets: Budgets
  /** Adds a listener that runs after each publish, when the new snapshot is readable. */
  readonly onPublish: (listener: () => void) => () => void
  readonly syncing: () => Syncing
  /** Monotonic milliseconds. */
  readonly now: () => number
}
