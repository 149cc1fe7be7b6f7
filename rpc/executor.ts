/** The seam between the front and the pool: rpc/ knows no thread. */
import type { Endpoint } from '../engine/chain/types.ts'
import { internalError, RpcError, type RpcErrorObject } from './errors.ts'
import type { Method } from './method.ts'
import { bytesOf } from './pieces.ts'

export type PoolCall = {
  readonly method: Method
  readonly params: readonly unknown[]
  /** The same as JSON text: what goes to the worker. */
  readonly text: string
  readonly endpoint: Endpoint
  /** The record the front holds for this call's batch; undefined: a single call, the newest when it is handed to a worker. */
  readonly record: number | undefined
  /** Monotonic milliseconds (performance.now of the front); counts queue time. */
  readonly deadline: number
  /** Who waits for it: a call for nobody ends early. */
  readonly client: { readonly isGone: boolean }
}
/**
 * JSON text of the result (ASCII only), a large one perhaps in pieces, or an error as plain data; `record`: what it was read from, where
 * a worker has read. `stale`: the record named in the call is gone, the front starts its batch again; a call without a record never gets it.
 */
export type PoolReply =
  | { readonly result: string; readonly record?: number | undefined }
  | { readonly pieces: readonly Uint8Array[]; readonly record?: number | undefined }
  | { readonly error: RpcErrorObject; readonly record?: number | undefined }
  | { readonly stale: true }

const ERROR_BYTES = 256
/** Bytes that it takes, about. */
export function sizeOfReply(reply: PoolReply): number {
  if ('result' in reply) return reply.result.length
  return 'pieces' in reply ? bytesOf(reply.pieces) : ERROR_BYTES
}

/** Never throws, always answers: queue full is -32005, deadline -32002, a dead worker -32603. */
export interface Executor {
  execute(call: PoolCall): Promise<PoolReply>
}

/** JSON text of the result. @throws {RpcError} what the call was answered with */
export function resultText(reply: PoolReply): string {
  if ('result' in reply) return reply.result
  if ('pieces' in reply) return Buffer.concat(reply.pieces).toString()
  if (!('error' in reply)) throw internalError()
  throw new RpcError(reply.error.code, reply.error.message, reply.error.data)
}
