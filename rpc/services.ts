/** What lives on the front thread and methods may ask for; built in workers/main.ts, replaced by real small ones in tests. */
import type { ChainReader, Endpoint } from '../engine/chain/types.ts'
import type { Bytes } from '../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../engine/primitives/transaction.ts'
import type { Caps } from './caps.ts'
import type { RpcErrorObject } from './errors.ts'
import type { Filters } from './filters.ts'
import type { Methods } from './method.ts'
import type { ReceiptWaits } from './receipt-waits.ts'
import type { ShownReceipts } from './shown.ts'
import type { Subscriptions } from './subscriptions.ts'
import type { Turns } from './turns.ts'

/** Transaction pool as methods see it. */
export interface PoolService {
  /** Validates against pending, journals, accepts. A refusal is a value. */
  submit(
    raw: Bytes,
  ):
    | { readonly hash: Bytes }
    | { readonly error: RpcErrorObject }
    | Promise<{ readonly hash: Bytes } | { readonly error: RpcErrorObject }>
  get(hash: Bytes): SignedTransaction | undefined
  /** State nonce given, the next nonce after the consecutive ones in the pool. */
  nextNonce(sender: Bytes, stateNonce: bigint): bigint
  /** Accepted here lately or in the pool: whose receipt is worth holding for. */
  isExpected(hash: Bytes): boolean
  counts(): { readonly pending: number; readonly queued: number }
  /** Every transaction when it becomes pending (executable). */
  onPending(listener: (hash: Bytes, transaction: SignedTransaction) => void): () => void
}

/** Keys this node signs with (`dev`: its funded accounts; otherwise `--unlock`). */
export interface AccountService {
  addresses(): readonly Bytes[]
  sign(
    address: Bytes,
    digest: Bytes,
  ): { readonly r: bigint; readonly s: bigint; readonly yParity: 0 | 1 } | undefined
}

export type FrontServices = {
  readonly reader: ChainReader
  readonly pool: PoolService
  readonly accounts: AccountService
  readonly filters: Filters
  readonly subscriptions: Subscriptions
  readonly waits: ReceiptWaits
  readonly shown: ShownReceipts
  /** Places for calls that wait for a transaction to be included. */
  readonly syncSends: Caps
  /** One after the other for the same key: nonces of eth_sendTransaction by sender. */
  readonly turns: Turns
  /** What this node serves, for rpc.discover and rpc_modules. */
  readonly methods: Readonly<Record<Endpoint, Methods>>
  /** Answer of web3_clientVersion. */
  readonly clientVersion: string
  /** Listeners run after each publish, with the new record readable. */
  readonly onPublish: (listener: () => void) => () => void
  readonly syncing: () =>
    | false
    | {
        readonly startingBlock: bigint
        readonly currentBlock: bigint
        readonly highestBlock: bigint
      }
  /** Monotonic milliseconds. */
  readonly now: () => number
}
