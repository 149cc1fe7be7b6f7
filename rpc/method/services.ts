/** What lives on the front thread and methods may ask for; built in rpc/rpc.ts of what workers/front/front.ts hands in. */
import type { ChainReader, Endpoint } from '../../engine/chain/types.ts'
import type { Filters } from '../events/filters.ts'
import type { ReceiptWaits } from '../events/receipt-waits.ts'
import type { ShownReceipts } from '../events/shown.ts'
import type { Subscriptions } from '../events/subscriptions.ts'
import type { KeptTexts } from '../json/kept-texts.ts'
import type { JsonSchema, Param } from '../json/schema.ts'
import type { Standing } from '../limiter/limiter.ts'
import type { LimitBy } from '../limiter/points.ts'
import type { Caps } from '../seam/caps.ts'
import type {
  AccountService,
  Forward,
  LazyState,
  PromiseService,
  StateMode,
  Syncing,
  TransactionService,
} from '../seam/ports.ts'
import type { Turns } from '../seam/turns.ts'

/** A method as it is shown to people. */
export type DescribedMethod = {
  readonly name: string
  readonly summary: string
  readonly params: readonly Param[]
  readonly result: { readonly name: string; readonly schema: JsonSchema }
}
export type DescribedMethods = ReadonlyMap<string, DescribedMethod>

/** What callers may spend. */
export interface Budgets {
  readonly by: LimitBy
  /** Of one second; undefined: it has no limit. Never rejects. */
  standing(address: string): Promise<Standing | undefined>
  /** Points of a call, by method, where that is more than one. */
  readonly prices: Readonly<Record<Endpoint, Readonly<Record<string, number>>>>
}

export type FrontServices = {
  readonly reader: ChainReader
  /** Of blocks and what is in them. */
  readonly texts: KeptTexts
  readonly transactions: TransactionService
  readonly promises: PromiseService
  readonly accounts: AccountService
  /** undefined: the node has all state. */
  readonly lazy: LazyState | undefined
  /** Who takes transactions, and has what is older; undefined: this node itself, and nobody. */
  readonly forward: Forward | undefined
  /** What rpc.discover says of the state. */
  readonly mode: StateMode | undefined
  readonly filters: Filters
  readonly subscriptions: Subscriptions
  readonly waits: ReceiptWaits
  readonly shown: ShownReceipts
  /** Places for calls that wait for a transaction to be included. */
  readonly syncSends: Caps
  /** One after the other for the same key: nonces of eth_sendTransaction by sender. */
  readonly turns: Turns
  /** What this node serves, for rpc.discover. */
  readonly methods: Readonly<Record<Endpoint, DescribedMethods>>
  /** Versions of the namespaces that it serves, by name: what rpc_modules answers. */
  readonly modules: Readonly<Record<Endpoint, Readonly<Record<string, string>>>>
  /** Answer of web3_clientVersion. */
  readonly clientVersion: string
  readonly budgets: Budgets
  /** Listeners run after each publish, with the new record readable. */
  readonly onPublish: (listener: () => void) => () => void
  readonly syncing: () => Syncing
  /** Monotonic milliseconds. */
  readonly now: () => number
}
