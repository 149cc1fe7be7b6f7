/** These timers count the time in which the process ran. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { abortAfter, ringAfter } from '../../../rpc/core/timeout.ts'

/**
 * The time in which the process stood still, which the system's timers count and the process's own
 * clock does not.
 */
let stoodMs = 0
const now = () => performance.now() - stoodMs
beforeEach(() => {
  stoodMs = 0
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})
afterEach(() => {
  // Spies on faked timers are restored first, because they restore the fake.
  vi.restoreAllMocks()
  vi.useRealTimers()
})
function stand(ms: number) {
  stoodMs += ms
  vi.advanceTimersByTime(ms)
}

describe('a timer', () => {
  const DAYS_30_MS = 30 * 86_400_000
  const CASES = [
    ['a millisecond', 1, 1],
    ['a second', 1_000, 1],
    ['half a millisecond more than an integer', 250.5, 1],
    ['30 days, the sum of several timers', DAYS_30_MS, 2],
  ] as const
  test.each(CASES)('fires once, after %s', (_, ms, timers) => {
    const ring = vi.fn()
    const set = vi.spyOn(globalThis, 'setTimeout')
    ringAfter(ms, ring, now)
    vi.advanceTimersByTime(Math.floor(ms) - 1)
    expect(ring).toHaveBeenCalledTimes(0)
    vi.advanceTimersByTime(2)
    expect(ring).toHaveBeenCalledTimes(1)
    expect(set).toHaveBeenCalledTimes(timers)
    vi.advanceTimersByTime(ms + 10_000)
    expect(ring).toHaveBeenCalledTimes(1)
  })

  test('does not count the time in which the process stood still', () => {
    const ring = vi.fn()
    ringAfter(1_000, ring, now)
    for (let times = 0; times < 3; times++) {
      vi.advanceTimersByTime(300)
      stand(5_000)
    }
    vi.advanceTimersByTime(99)
    expect(ring).toHaveBeenCalledTimes(0)
    vi.advanceTimersByTime(1)
    expect(ring).toHaveBeenCalledTimes(1)
  })

  test.each([0, 5_000])(
    'does not fire after it was ended, even after %i ms of standstill',
    (ms) => {
      const ring = vi.fn()
      const end = ringAfter(1_000, ring, now)
      stand(ms)
      end()
      expect(vi.getTimerCount()).toBe(0)
      vi.advanceTimersByTime(10_000)
      expect(ring).toHaveBeenCalledTimes(0)
    },
  )
})

test('a signal is aborted after its timeout, unless it has ended', () => {
  const [late, ended] = [abortAfter(1_000, now), abortAfter(1_000, now)]
  stand(5_000)
  ended.end()
  expect([late.signal.aborted, ended.signal.aborted]).toEqual([false, false])
  vi.advanceTimersByTime(1_000)
  expect([late.signal.aborted, ended.signal.aborted]).toEqual([true, false])
})
