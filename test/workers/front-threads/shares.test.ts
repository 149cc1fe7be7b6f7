import { describe, expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import type { NodeConfig } from '../../../workers/config/serving-options.ts'
import { shareOf } from '../../../workers/front-threads/shares.ts'

const config = { limits: { ...DEFAULT_LIMITS, keptTextBytes: 0 }, rateLimit: 100 } as NodeConfig

describe('the share of a front thread', () => {
  test('divides totals, but not the limits of one request or one address', () => {
    const { limits, rateLimit } = shareOf(config, 3)
    expect(limits.sockets).toBe(Math.ceil(DEFAULT_LIMITS.sockets / 3))
    expect(limits.resultCacheBytes).toBe(Math.ceil(DEFAULT_LIMITS.resultCacheBytes / 3))
    expect(limits.keptTextBytes).toBe(0)
    for (const name of ['callMs', 'bodyBytes', 'filtersPerClient', 'socketsPerClient'] as const)
      expect(limits[name]).toBe(DEFAULT_LIMITS[name])
    expect(rateLimit).toBe(100)
  })

  test('adds up to the total, or slightly more', () => {
    for (const frontThreads of [1, 2, 7]) {
      const { limits } = shareOf(config, frontThreads)
      for (const [name, value] of Object.entries(limits)) {
        const total = config.limits[name as keyof typeof limits]
        if (value === total) continue
        expect(value * frontThreads).toBeGreaterThanOrEqual(total)
        expect((value - 1) * frontThreads).toBeLessThan(total)
      }
    }
  })
})
