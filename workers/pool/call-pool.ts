/**
 * Runs the node's own work for a client on the pool, because long inputs would block the socket
 * thread.
 */
import { setImmediate } from 'node:timers/promises'
import { internalError, type RpcErrorObject } from '../../rpc/core/errors.ts'
import type { Executor, PoolClient } from '../../rpc/core/executor.ts'
import { type Deadlines, timeoutMsOf } from '../../rpc/core/queue-class.ts'
import type { Method } from '../../rpc/method/method.ts'

export type PoolCaller = {
  readonly executor: Executor
  readonly limits: Deadlines
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/**
 * Runs one call on the pool; it never throws. A full queue, a passed deadline or a lost client
 * gives an error.
 * @param request `text` gives the parameters as JSON
 * @returns the result as JSON text, or an error
 */
export async function callPool(
  { executor, limits, now }: PoolCaller,
  method: Method,
  request: { readonly client: PoolClient; readonly text: () => string },
): Promise<{ readonly result: string } | { readonly error: RpcErrorObject }> {
  const deadline = now() + timeoutMsOf(method.runs, limits)
  // The event loop gets a turn between decoding the bytes and encoding them as text.
  await setImmediate()
  const reply = await executor.execute({
    method,
    params: [],
    text: request.text(),
    endpoint: 'flashblocks',
    snapshot: undefined,
    deadline,
    client: request.client,
  })
  if ('error' in reply) return { error: reply.error }
  return 'result' in reply ? { result: reply.result } : { error: internalError().toObject() }
}
