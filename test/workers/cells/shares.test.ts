import { describe, expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import { shareOf } from '../../../workers/cells/shares.ts'
import type { NodeConfig } from '../../../workers/config/serving.ts'

const config = { limits: { ...DEFAULT_LIMITS, keptTextBytes: 0 }, rateLimit: 100 } as NodeConfig

describe('the share of a cell', () => {
  test('memory, places and queues are totals; what is of one request or one address is not', () => {
    const { limits, rateLimit } = shareOf(config, 3)
    expect(limits.sockets).toBe(Math.ceil(DEFAULT_LIMITS.sockets / 3))
    expect(limits.resultCacheBytes).toBe(Math.ceil(DEFAULT_LIMITS.resultCacheBytes / 3))
    expect(limits.keptTextBytes).toBe(0)
    for (const name of ['callMs', 'bodyBytes', 'filtersPerClient', 'socketsPerClient'] as const)
      expect(limits[name]).toBe(DEFAULT_LIMITS[name])
    expect(rateLimit).toBe(100)
  })

  test('all shares together are the total, or a little more', () => {
    for (const cells of [1, 2, 7]) {
      const { limits } = shareOf(config, cells)
      for (const [name, value] of Object.entries(limits)) {
        const total = config.limits[name as keyof typeof limits]
        if (value === total) continue
        expect(value * cells).toBeGreaterThanOrEqual(total)
        expect((value - 1) * cells).toBeLessThan(total)
      }
    }
  })
})
