/** Checks that a pool answers. */

import { OWN_CLIENT } from '../../rpc/core/executor.ts'
import { methods } from '../../rpc/methods/index.ts'
import type { Pool } from './pool.ts'

const PROBE_MS = 3_000

/**
 * Sends a call that executes nothing through queue, worker, lease and state. It rejects with the
 * reason when that fails.
 */
export async function probePool(pool: Pick<Pool, 'execute'>, now: () => number): Promise<void> {
  const method = methods.get('eth_call')!
  const params = [{ to: `0x${'00'.repeat(20)}`, gas: '0x5208' }, 'latest']
  const reply = await pool.execute({
    method,
    params,
    text: JSON.stringify(params),
    endpoint: 'flashblocks',
    snapshot: undefined,
    deadline: now() + PROBE_MS,
    client: OWN_CLIENT,
  })
  if ('error' in reply) throw new Error(reply.error.message)
}
