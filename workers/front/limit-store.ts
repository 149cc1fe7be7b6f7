/** Where the points of the rate limits are, beside the memory of this process. */
import type { RedisStores } from '../../rpc/limiter/redis.ts'
import type { Report } from '../observe/reporter.ts'

/** Loaded where it is asked for: most nodes have none. @returns undefined: there is none beside the memory */
export async function openLimitStore(
  store: string,
  report: Report,
): Promise<RedisStores | undefined> {
  if (store === 'memory') return undefined
  const { openRedis } = await import('../../rpc/limiter/redis.ts')
  return openRedis(store, {
    onAway: (reason) => report('limit_store_away', { reason }),
    now: Date.now,
  })
}
