/** Interface between the front and the pool, because rpc/ does not depend on threads. */
import type { Endpoint, FlashblockId } from '../../engine/chain/types.ts'
import type { MissingKey } from '../../engine/state/reader.ts'
import type { Reads } from '../../engine/state/reads.ts'
import { errorOf, internalError, type RpcErrorObject } from './errors.ts'
import { bytesOf } from './pieces.ts'
import type { Runs } from './queue-class.ts'

/** Properties of a method that the pool needs. */
export type PoolMethod = { readonly name: string; readonly runs: Runs }
export type PoolCall = {
  readonly method: PoolMethod
  readonly params: readonly unknown[]
  /** Parameters as JSON text, which the worker receives. */
  readonly text: string
  readonly endpoint: Endpoint
  /**
   * Number of the snapshot that the front leases for the batch of this call. undefined: a single
   * call, which reads the newest snapshot at its start.
   */
  readonly snapshot: number | undefined
  /** Deadline in monotonic milliseconds of the front; includes queue time. */
  readonly deadline: number
  readonly client: PoolClient
  /**
   * Hash of the block whose transactions the call replays, if known. A worker that replayed this
   * block before is preferred.
   */
  readonly replayed?: string | undefined
  /** Called before the response when a worker has run the call to its end. */
  readonly onRun?: ((times: RunTimes) => void) | undefined
  /** The reply must list the state that was read. */
  readonly wantsReads?: boolean | undefined
}
/** Time that a call waited in the queue, and processor time that it took in a worker. */
export type RunTimes = { readonly queuedMs: number; readonly runMs: number }
/**
 * Client that waits for a call. A call of a disconnected client ends early. Each address has its
 * share of the workers.
 */
export type PoolClient = {
  readonly isGone: boolean
  readonly address: string
  /**
   * Aborted when the client disconnects. Left out: the client stays. The signal is created on first
   * use, unlike `isGone`.
   */
  readonly signal?: AbortSignal
}
/** Client of calls that the node itself makes. */
export const OWN_CLIENT: PoolClient = { isGone: false, address: '' }
/**
 * View that a worker read, or nothing. `pending` is included, because the snapshot may be gone when
 * the reply arrives.
 */
export type ReadFrom = {
  readonly snapshot?: number | undefined
  readonly pending?: FlashblockId | undefined
}
/**
 * Reply of the pool: ASCII JSON text (large results possibly in pieces), or an error as plain data.
 * `stale` means that the view cannot answer and the front starts again. Either the snapshot of the
 * call is gone, or a lazy node must first fetch `missing`. A call without a snapshot gets no reply
 * about a lost snapshot. `reads` is set if the call wants reads and they are known.
 */
export type PoolReply =
  | ({ readonly result: string; readonly reads?: Reads | undefined } & ReadFrom)
  | ({ readonly pieces: readonly Uint8Array[] } & ReadFrom)
  | ({ readonly error: RpcErrorObject; readonly reads?: Reads | undefined } & ReadFrom)
  | { readonly stale: true; readonly missing?: readonly MissingKey[] | undefined }

const ERROR_BYTES = 256
/** Estimates the size of a reply in bytes. */
export function sizeOfReply(reply: PoolReply): number {
  if ('result' in reply) return reply.result.length
  return 'pieces' in reply ? bytesOf(reply.pieces) : ERROR_BYTES
}

/**
 * Runs calls. Executors never throw: a full queue, a passed deadline or a dead worker is an error
 * reply.
 */
export interface Executor {
  execute(call: PoolCall): Promise<PoolReply>
  /** Called when the reply of an older snapshot is reused for the call's snapshot. */
  carried?(call: PoolCall, reply: PoolReply): void
}

/**
 * Returns the JSON text of the result.
 * @throws {RpcError} the error of the reply
 */
export function resultText(reply: PoolReply): string {
  if ('result' in reply) return reply.result
  if ('pieces' in reply) return Buffer.concat(reply.pieces).toString()
  if (!('error' in reply)) throw internalError()
  throw errorOf(reply.error)
}
