/** Whether a pool answers. */
import { methods } from '../../rpc/methods/index.ts'
import { OWN_CLIENT } from '../../rpc/seam/executor.ts'
import type { Pool } from './pool.ts'

const PROBE_MS = 3_000

/** A call that runs nothing, but takes the whole way: queue, worker, lease, state. Rejects with what went wrong. */
export async function probePool(pool: Pick<Pool, 'execute'>, now: () => number): Promise<void> {
  const method = methods.get('eth_call')!
  const params = [{ to: `0x${'00'.repeat(20)}`, gas: '0x5208' }, 'latest']
  const reply = await pool.execute({
    method,
    params,
    text: JSON.stringify(params),
    endpoint: 'flashblocks',
    record: undefined,
    deadline: now() + PROBE_MS,
    client: OWN_CLIENT,
  })
  if ('error' in reply) throw new Error(reply.error.message)
}
