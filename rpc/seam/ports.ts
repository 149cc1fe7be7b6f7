/** What methods ask of the node around them: transactions and accounts, as they see them. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import type { UserDeposit } from '../../engine/sources/sequencer/user-deposits.ts'
import type { MissingKey } from '../../engine/state/reader.ts'
import type { Counted, StoredPromise } from '../../engine/storage/ledger-types.ts'
import type { Standing } from '../../engine/txpool/departed.ts'
import type { Counts } from '../../engine/txpool/sender.ts'
import type { RpcErrorObject } from './errors.ts'
import type { PoolClient } from './executor.ts'

/** A transaction was accepted, or why not. */
export type Submission = { readonly hash: Bytes } | { readonly error: RpcErrorObject }

/** undefined: none that waits has the hash. */
type Waiting = SignedTransaction | undefined

/**
 * The transactions that wait (txpool), as methods see them. What may be a promise is one where another thread has the txpool: views that
 * are read when it comes are at least as new as the txpool was.
 */
export interface TransactionService {
  /**
   * Validates against pending, journals, accepts. A refusal is a value. What workers find out about it, they do for `client`. `isTaken`: by
   * the sequencer, so that its blobs and its free call need no look. @throws {MissingError} where state is fetched as it is read
   */
  submit(raw: Bytes, client: PoolClient, isTaken?: boolean): Submission | Promise<Submission>
  /** One that waits, or is in a block that not every view has yet. */
  get(hash: Bytes): Waiting | Promise<Waiting>
  /** State nonce given, the next nonce after the consecutive ones that wait. */
  nextNonce(sender: Bytes, stateNonce: bigint): bigint
  /** Accepted here lately or waiting: whose receipt is worth holding for. */
  isExpected(hash: Bytes): boolean
  /** Of one that is in no block; undefined: it is in one, or nothing is known of it. */
  standingOf(hash: Bytes): Standing | undefined | Promise<Standing | undefined>
  counts(): Counts | Promise<Counts>
  /** Every transaction when it becomes pending (executable). */
  onPending(listener: (hash: Bytes, transaction: SignedTransaction) => void): () => void
  /** Hashes of transactions that have left without a block, once a turn of the event loop; `standingOf` says why. */
  onDeparted(listener: (hashes: readonly Bytes[]) => void): void
}

/** What flashblocks promised, and what became of it. */
export interface PromiseService {
  /** Of a transaction, by height. @throws {DatabaseError} */
  of(hash: Bytes): readonly StoredPromise[]
  /** What was counted in the last so many milliseconds, or a little more. @throws {DatabaseError} */
  counts(windowMs: number): Counted
  /** Milliseconds since 1970. */
  nowMs(): number
}

/** Keys this node signs with (`dev`: its funded accounts; otherwise `--unlock`). */
export interface AccountService {
  addresses(): readonly Bytes[]
  sign(
    address: Bytes,
    digest: Bytes,
  ): { readonly r: bigint; readonly s: bigint; readonly yParity: 0 | 1 } | undefined
  /** Of a development chain: accounts that are sent for without their keys. */
  readonly impersonated?: Impersonation | undefined
}

export interface Impersonation {
  has(address: Bytes): boolean
  /** A transaction of the next block that needs no signature: its hash, when it is in a flashblock. @throws {RpcError} */
  send: SendDeposit
}

/** Resolves to the hash of the deposit's transaction when that is in a flashblock. @throws {RpcError} */
export type SendDeposit = (deposit: Omit<UserDeposit, 'request'>) => Promise<Bytes>

/**
 * What the state of a node that follows others is worth: all of it is here and its roots are recomputed; it is fetched as it is read, and
 * each value proven under the header that the upstream gives; or it is fetched, and as right as the upstream is.
 */
export type StateMode = 'whole' | 'proven' | 'trusted'
export const isFetched = (mode: StateMode | undefined): boolean =>
  mode === 'proven' || mode === 'trusted'

/** State that the node has not yet: undefined where it has all of it. */
export interface LazyState {
  /**
   * Resolves when the keys can be read, or with what stood in the way; never rejects. Keys that are asked for already are not asked for
   * twice. Once `signal` is aborted nobody waits for it.
   */
  fetch(
    keys: readonly MissingKey[],
    options: {
      readonly for: 'send' | 'caller'
      /** Address of who asks: each has its share of what the upstream allows. */
      readonly client: string
      readonly signal: AbortSignal
    },
  ): Promise<{ readonly failed?: string | undefined }>
}

/** What another node said: JSON text of its result, its error as it was, or why it said nothing. */
export type Forwarded =
  | { readonly result: string }
  | { readonly error: RpcErrorObject }
  | { readonly silent: string }
/** The nodes that this one follows: undefined where it follows none. */
export interface Forward {
  /** Never rejects. Once `signal` is aborted nobody waits for it. */
  forward(
    method: string,
    params: readonly unknown[],
    options: {
      /** The one that takes transactions, or any that has the chain. */
      readonly to: 'sequencer' | 'upstream'
      /** Address of who asks. */
      readonly client: string
      readonly signal: AbortSignal
    },
  ): Promise<Forwarded>
}

/** How far the node is with catching up; false: it is not. */
export type Syncing =
  | false
  | {
      readonly startingBlock: bigint
      readonly currentBlock: bigint
      readonly highestBlock: bigint
    }
