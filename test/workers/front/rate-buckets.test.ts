/** Addresses get points back when the front has stood still. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openRateBuckets } from '../../../workers/front/rate-buckets.ts'

describe('after a stall', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: 1_000_000 })
  })
  afterEach(() => {
    vi.useRealTimers()
  })
  const buckets = ['charging', 'visiting'] as const
  test.each(buckets)(
    '%s credits the points of that time at the next charge, before any timer',
    async (name) => {
      const stalls: number[] = []
      let clock = 0
      const opened = openRateBuckets({
        config: { rateLimit: 10, rateLimitOf: [], limits: { limiterKeys: 10 } },
        metrics: { refused() {}, stalled: (ms) => void stalls.push(ms) },
        report() {},
        now: () => clock,
      })
      const bucket = opened[name]
      const allowed = async (count: number) => {
        const charges = await Promise.all(
          Array.from({ length: count }, () => bucket.charge('a', 1)),
        )
        return charges.filter(({ isAllowed }) => isAllowed).length
      }
      expect(await allowed(11)).toBe(10)
      clock = 550
      expect(await allowed(11)).toBe(5)
      expect(stalls).toEqual([500])
    },
  )
})
