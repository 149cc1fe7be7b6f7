/** Timers by the time in which the process ran. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { abortAfter, ringAfter } from '../../../rpc/seam/patience.ts'

/** What the process stood still, which the system's timers count and its own clock does not. */
let stoodMs = 0
const now = () => performance.now() - stoodMs
beforeEach(() => {
  stoodMs = 0
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})
afterEach(() => {
  // Spies on timers that are faked go first: what they put back is the fake.
  vi.restoreAllMocks()
  vi.useRealTimers()
})
function stand(ms: number) {
  stoodMs += ms
  vi.advanceTimersByTime(ms)
}

describe('a ring', () => {
  const DAYS_30_MS = 30 * 86_400_000
  const CASES = [
    ['a millisecond', 1, 1],
    ['a while', 1_000, 1],
    ['half a millisecond more', 250.5, 1],
    ['longer than a timer may take', DAYS_30_MS, 2],
  ] as const
  test.each(CASES)('comes once, after %s', (_, ms, timers) => {
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

  test('leaves out what the process stood still, as often as it does', () => {
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

  test.each([0, 5_000])('does not come when it is ended, %i ms of standing later', (ms) => {
    const ring = vi.fn()
    const end = ringAfter(1_000, ring, now)
    stand(ms)
    end()
    expect(vi.getTimerCount()).toBe(0)
    vi.advanceTimersByTime(10_000)
    expect(ring).toHaveBeenCalledTimes(0)
  })
})

test('a signal is aborted then, and not once it is ended', () => {
  const [late, ended] = [abortAfter(1_000, now), abortAfter(1_000, now)]
  stand(5_000)
  ended.end()
  expect([late.signal.aborted, ended.signal.aborted]).toEqual([false, false])
  vi.advanceTimersByTime(1_000)
  expect([late.signal.aborted, ended.signal.aborted]).toEqual([true, false])
})
