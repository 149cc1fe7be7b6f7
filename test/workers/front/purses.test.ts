/** What addresses may ask for when the front has stood still. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openPurses } from '../../../workers/front/purses.ts'

describe('after a stall', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: 1_000_000 })
  })
  afterEach(() => {
    vi.useRealTimers()
  })
  const purses = ['charging', 'visiting'] as const
  test.each(purses)('%s has the points of that time, before a timer could say so', async (name) => {
    const stalls: number[] = []
    let clock = 0
    const opened = openPurses({
      config: { rateLimit: 10, rateLimitOf: [], limits: { limiterKeys: 10 } },
      metrics: { refused() {}, stalled: (ms) => void stalls.push(ms) },
      report() {},
      now: () => clock,
    })
    const purse = opened[name]
    const allowed = async (count: number) => {
      const charges = await Promise.all(Array.from({ length: count }, () => purse.charge('a', 1)))
      return charges.filter(({ isAllowed }) => isAllowed).length
    }
    expect(await allowed(11)).toBe(10)
    clock = 550
    expect(await allowed(11)).toBe(5)
    expect(stalls).toEqual([500])
  })
})
