/** Results that depend on a view alone: one generation of each endpoint, bounded in items and bytes. */
import type { Endpoint } from '../engine/chain/types.ts'
import type { PoolReply } from './executor.ts'

export interface ResultCache {
  get(view: CachedView, key: string): PoolReply | undefined
  set(view: CachedView, key: string, reply: PoolReply): void
  readonly stats: {
    readonly hits: number
    readonly misses: number
    readonly items: number
    readonly bytes: number
  }
}
type CachedView = {
  readonly endpoint: Endpoint
  readonly cacheKey: string
  readonly record: number
}
type Generation = {
  cacheKey: string
  record: number
  replies: Map<string, PoolReply>
  bytes: number
}

/** @param options.items, options.bytes bounds of one endpoint's generation. */
export function createResultCache(options: {
  readonly items: number
  readonly bytes: number
}): ResultCache {
  const generations: Record<Endpoint, Generation> = {
    standard: { cacheKey: '', record: -1, replies: new Map(), bytes: 0 },
    flashblocks: { cacheKey: '', record: -1, replies: new Map(), bytes: 0 },
  }
  let hits = 0
  let misses = 0

  return {
    get({ endpoint, cacheKey }, key) {
      const generation = generations[endpoint]
      const reply = generation.cacheKey === cacheKey ? generation.replies.get(key) : undefined
      if (reply === undefined) misses++
      else hits++
      return reply
    },
    set({ endpoint, cacheKey, record }, key, reply) {
      let generation = generations[endpoint]
      if (generation.cacheKey !== cacheKey) {
        // Nobody but a batch that still runs asks for an older view than the newest one seen.
        if (record < generation.record) return
        generation = { cacheKey, record, replies: new Map(), bytes: 0 }
        generations[endpoint] = generation
      }
      const size = key.length + ('result' in reply ? reply.result.length : 256)
      if (generation.replies.has(key) || generation.replies.size >= options.items) return
      if (generation.bytes + size > options.bytes) return
      generation.replies.set(key, reply)
      generation.bytes += size
    },
    get stats() {
      const all = Object.values(generations)
      return {
        hits,
        misses,
        items: all.reduce((sum, { replies }) => sum + replies.size, 0),
        bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
      }
    },
  }
}
