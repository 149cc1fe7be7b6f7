/** Optional store of the rate limits' points, outside of this process. */
import type { RedisStores } from '../../rpc/limiter/redis.ts'
import type { Report } from '../observe/reporter.ts'

/**
 * Opens the store; the Redis client is loaded on demand, because most nodes need none.
 * @returns undefined for the memory of this process
 */
export async function openLimitStore(
  store: string,
  report: Report,
): Promise<RedisStores | undefined> {
  if (store === 'memory') return undefined
  const { openRedis } = await import('../../rpc/limiter/redis.ts')
  return openRedis(store, {
    onDisconnected: (reason) => report('limit_store_away', { reason }),
    now: Date.now,
  })
}
