/**
 * Interfaces of methods to the node around them: transactions, promises, accounts and other nodes.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import type { UserDeposit } from '../../engine/sources/sequencer/first-transactions.ts'
import type { MissingKey } from '../../engine/state/reader.ts'
import type { Counted, StoredPromise } from '../../engine/storage/ledger-types.ts'
import type { Standing } from '../../engine/txpool/departed.ts'
import type { Counts } from '../../engine/txpool/sender.ts'
import type { RpcErrorObject } from './errors.ts'
import type { PoolClient } from './executor.ts'

/** Hash of an accepted transaction, or the error of a refused one. */
export type Submission = { readonly hash: Bytes } | { readonly error: RpcErrorObject }

/** undefined: no waiting transaction has the hash. */
type Waiting = SignedTransaction | undefined

/**
 * The transaction pool (txpool), as methods see it. A result is a promise if another thread owns
 * the txpool. Views read after such a promise resolves are at least as new as the txpool was.
 */
export interface TransactionService {
  /**
   * Validates a transaction against pending, journals and accepts it. A refusal is returned as a
   * value.
   * @param client client that the work of workers is done for
   * @param isTaken the sequencer already accepted it, so its blobs and free call need no check
   * @throws {MissingError} if state is fetched lazily
   */
  submit(raw: Bytes, client: PoolClient, isTaken?: boolean): Submission | Promise<Submission>
  /** Returns a transaction that waits, or whose block some views do not have yet. */
  get(hash: Bytes): Waiting | Promise<Waiting>
  /** Returns the next nonce after the consecutive waiting transactions. */
  nextNonce(sender: Bytes, stateNonce: bigint): bigint
  /**
   * Tells whether a transaction waits or was accepted here lately. Only the receipt of such a
   * transaction justifies a receipt hold.
   */
  isExpected(hash: Bytes): boolean
  /**
   * Returns the standing of a transaction outside blocks. undefined: the transaction is in a block
   * or unknown.
   */
  standingOf(hash: Bytes): Standing | undefined | Promise<Standing | undefined>
  counts(): Counts | Promise<Counts>
  /** Listens to every transaction that becomes pending (executable). */
  onPending(listener: (hash: Bytes, transaction: SignedTransaction) => void): () => void
  /**
   * Listens to hashes of transactions that left without a block, once per turn of the event loop.
   * `standingOf` gives the reason.
   */
  onDeparted(listener: (hashes: readonly Bytes[]) => void): void
}

/** Promises of flashblocks, and their outcomes. */
export interface PromiseService {
  /**
   * Returns the promises about a transaction, ordered by height.
   * @throws {DatabaseError}
   */
  of(hash: Bytes): readonly StoredPromise[]
  /**
   * Returns the counts of the last `windowMs` milliseconds, or slightly more.
   * @throws {DatabaseError}
   */
  counts(windowMs: number): Counted
  /** Returns milliseconds since 1970. */
  nowMs(): number
}

/** Keys that this node signs with (`dev`: its funded accounts; otherwise `--unlock`). */
export interface AccountService {
  addresses(): readonly Bytes[]
  sign(
    address: Bytes,
    digest: Bytes,
  ): { readonly r: bigint; readonly s: bigint; readonly yParity: 0 | 1 } | undefined
  /** Development chains only: accounts that can send without their keys. */
  readonly impersonated?: Impersonation | undefined
}

export interface Impersonation {
  has(address: Bytes): boolean
  /**
   * Sends a transaction without a signature in the next block.
   * @throws {RpcError}
   */
  send: SendDeposit
}

/**
 * Resolves to the deposit's transaction hash when a flashblock includes it.
 * @throws {RpcError}
 */
export type SendDeposit = (deposit: Omit<UserDeposit, 'request'>) => Promise<Bytes>

/**
 * Trust in the state of a node that follows others. `whole`: all state is local and roots are
 * recomputed. `proven`: state is fetched on read, and each value is proven under the upstream's
 * header. `trusted`: state is fetched without proofs.
 */
export type StateMode = 'whole' | 'proven' | 'trusted'
export const isFetched = (mode: StateMode | undefined): boolean =>
  mode === 'proven' || mode === 'trusted'

/** State that the node fetches on read. undefined: all state is local. */
export interface LazyState {
  /**
   * Fetches state. The promise resolves when the keys can be read, or with the reason of a failure,
   * and never rejects. A key that is already being fetched is not requested twice. After `signal`
   * aborts, the result is ignored.
   */
  fetch(
    keys: readonly MissingKey[],
    options: {
      readonly for: 'send' | 'caller'
      /** Address of the client. Each client has its share of the upstream's rate. */
      readonly client: string
      readonly signal: AbortSignal
    },
  ): Promise<{ readonly failed?: string | undefined }>
}

/**
 * Response of another node: JSON text of its result, its unchanged error, or the reason for its
 * silence.
 */
export type Forwarded =
  | { readonly result: string }
  | { readonly error: RpcErrorObject }
  | { readonly silent: string }
/** The nodes that this node follows. undefined: this node follows none. */
export interface Forward {
  /** Forwards a call and never rejects. After `signal` aborts, the result is ignored. */
  forward(
    method: string,
    params: readonly unknown[],
    options: {
      /** The node that takes transactions, or any node that has the chain. */
      readonly to: 'sequencer' | 'upstream'
      /** Address of the client. */
      readonly client: string
      readonly signal: AbortSignal
    },
  ): Promise<Forwarded>
}

/** Progress of catching up. false: the node is in sync. */
export type Syncing =
  | false
  | {
      readonly startingBlock: bigint
      readonly currentBlock: bigint
      readonly highestBlock: bigint
    }
