/** What the node asks of the workers of the pool for a client: work on long bytes, which the thread of the sockets has no time for. */
import { setImmediate } from 'node:timers/promises'
import type { Method } from '../../rpc/method/method.ts'
import { internalError, type RpcErrorObject } from '../../rpc/seam/errors.ts'
import type { Executor, PoolClient } from '../../rpc/seam/executor.ts'
import { type Deadlines, laneMs } from '../../rpc/seam/lane.ts'

export type Asking = {
  readonly executor: Executor
  readonly limits: Deadlines
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/**
 * The result as JSON text; an error too when there was no time or no place, or its client has gone. `text` gives the parameters as JSON.
 * Never throws.
 */
export async function askPool(
  { executor, limits, now }: Asking,
  method: Method,
  asked: { readonly client: PoolClient; readonly text: () => string },
): Promise<{ readonly result: string } | { readonly error: RpcErrorObject }> {
  const deadline = now() + laneMs(method.runs, limits)
  // The bytes have just been decoded, and become text: others get a turn between the two.
  await setImmediate()
  const reply = await executor.execute({
    method,
    params: [],
    text: asked.text(),
    endpoint: 'flashblocks',
    record: undefined,
    deadline,
    client: asked.client,
  })
  if ('error' in reply) return { error: reply.error }
  return 'result' in reply ? { result: reply.result } : { error: internalError().toObject() }
}
