/** Results that depend on a view alone, bounded in items and bytes: the oldest make room, so those of heads that are gone do. */
import { type PoolReply, sizeOfReply } from '../seam/executor.ts'

export interface ResultCache {
  /** @param key what the answer depends on (ChainView.cacheKey), the method and its parameters */
  get(key: string): PoolReply | undefined
  set(key: string, reply: PoolReply): void
  readonly stats: {
    readonly hits: number
    readonly misses: number
    readonly items: number
    readonly bytes: number
  }
}

export function createResultCache(limits: {
  readonly items: number
  readonly bytes: number
}): ResultCache {
  const replies = new Map<string, PoolReply>()
  let bytes = 0
  let hits = 0
  let misses = 0

  return {
    get(key) {
      const reply = replies.get(key)
      if (reply === undefined) misses++
      else hits++
      return reply
    },
    set(key, reply) {
      const size = sizeOf(key, reply)
      if (replies.has(key) || size > limits.bytes) return
      replies.set(key, reply)
      bytes += size
      for (const [oldest, old] of replies) {
        if (replies.size <= limits.items && bytes <= limits.bytes) return
        replies.delete(oldest)
        bytes -= sizeOf(oldest, old)
      }
    },
    get stats() {
      return { hits, misses, items: replies.size, bytes }
    },
  }
}

const sizeOf = (key: string, reply: PoolReply): number => key.length + sizeOfReply(reply)
