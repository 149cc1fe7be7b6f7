/** The seam between the front and the pool: rpc/ knows no thread. */
import type { Endpoint, FlashblockPlace } from '../../engine/chain/types.ts'
import type { MissingKey } from '../../engine/state/reader.ts'
import type { Reads } from '../../engine/state/reads.ts'
import { errorOf, internalError, type RpcErrorObject } from './errors.ts'
import type { Runs } from './lane.ts'
import { bytesOf } from './pieces.ts'

/** Of a method, what the pool needs to know. */
export type PoolMethod = { readonly name: string; readonly runs: Runs }
export type PoolCall = {
  readonly method: PoolMethod
  readonly params: readonly unknown[]
  /** The same as JSON text: what goes to the worker. */
  readonly text: string
  readonly endpoint: Endpoint
  /** The record the front holds for this call's batch; undefined: a single call, the newest when it is handed to a worker. */
  readonly record: number | undefined
  /** Monotonic milliseconds of the front; counts queue time. */
  readonly deadline: number
  readonly client: PoolClient
  /** Hash of the block whose transactions it replays, where that is known: a worker that has done so before is the better one. */
  readonly replayed?: string | undefined
  /** Told before the answer, where a worker has run it to its end; left out: nobody wants to know. */
  readonly onRun?: ((times: RunTimes) => void) | undefined
  /** The reply shall say what was read. */
  readonly wantsReads?: boolean | undefined
}
/** Of a call in a worker: how long it waited for that, and how long it took its processor. */
export type RunTimes = { readonly queuedMs: number; readonly runMs: number }
/** Who waits for a call: one for nobody ends early, and each address has its share of the workers. */
export type PoolClient = {
  readonly isGone: boolean
  readonly address: string
  /** Aborted when it goes; left out: it stays. To be made, unlike `isGone`. */
  readonly signal?: AbortSignal
}
/** The node itself. */
export const OWN_CLIENT: PoolClient = { isGone: false, address: '' }
/** What a worker has read; left out: nothing. `pending` is told because the record may be gone when the front has the reply. */
export type ReadFrom = {
  readonly record?: number | undefined
  readonly pending?: FlashblockPlace | undefined
}
/**
 * JSON text of the result (ASCII only), a large one perhaps in pieces, or an error as plain data. `stale`: the view cannot answer, the
 * front starts again: the record named in the call is gone, which a call without a record never hears, or state is `missing` that a lazy
 * node has to fetch first. `reads`: where the call asked for them, and they are known.
 */
export type PoolReply =
  | ({ readonly result: string; readonly reads?: Reads | undefined } & ReadFrom)
  | ({ readonly pieces: readonly Uint8Array[] } & ReadFrom)
  | ({ readonly error: RpcErrorObject; readonly reads?: Reads | undefined } & ReadFrom)
  | { readonly stale: true; readonly missing?: readonly MissingKey[] | undefined }

const ERROR_BYTES = 256
/** Bytes that it takes, about. */
export function sizeOfReply(reply: PoolReply): number {
  if ('result' in reply) return reply.result.length
  return 'pieces' in reply ? bytesOf(reply.pieces) : ERROR_BYTES
}

/** Never throws, always answers, with an error too where the queue is full, the deadline has passed or a worker has died. */
export interface Executor {
  execute(call: PoolCall): Promise<PoolReply>
  /** Hears of a reply of an older record that is given again, as one of the call's record. */
  carried?(call: PoolCall, reply: PoolReply): void
}

/** JSON text of the result. @throws {RpcError} what the call was answered with */
export function resultText(reply: PoolReply): string {
  if ('result' in reply) return reply.result
  if ('pieces' in reply) return Buffer.concat(reply.pieces).toString()
  if (!('error' in reply)) throw internalError()
  throw errorOf(reply.error)
}
