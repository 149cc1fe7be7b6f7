/** What is noticed when a thread stands still. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { watchStalls } from '../../../rpc/limiter/stalls.ts'

describe('stalls', () => {
  let clock = 0
  const stalls: number[] = []
  beforeEach(() => {
    clock = 0
    stalls.length = 0
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })
  const watch = () =>
    watchStalls(
      () => clock,
      (ms) => stalls.push(ms),
    )

  test('a quarter of a second is everyday', () => {
    const watcher = watch()
    clock = 300
    watcher.look()
    vi.advanceTimersByTime(50)
    expect(stalls).toEqual([])
    watcher.close()
  })
  test('a longer one is told once, by whoever looks first', () => {
    const watcher = watch()
    clock = 1_050
    watcher.look()
    watcher.look()
    vi.advanceTimersByTime(50)
    expect(stalls).toEqual([1_000])
    clock += 600
    vi.advanceTimersByTime(50)
    expect(stalls).toEqual([1_000, 550])
    watcher.close()
    clock += 10_000
    vi.advanceTimersByTime(50)
    expect(stalls).toHaveLength(2)
  })
})
