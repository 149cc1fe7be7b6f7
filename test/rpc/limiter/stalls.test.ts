/** A thread notices when it has stood still. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { watchStalls } from '../../../rpc/limiter/stalls.ts'

describe('the stall watcher', () => {
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

  test('ignores a stall of a quarter of a second', () => {
    const watcher = watch()
    clock = 300
    watcher.check()
    vi.advanceTimersByTime(50)
    expect(stalls).toEqual([])
    watcher.close()
  })
  test('reports a longer stall once, by a check or by its timer', () => {
    const watcher = watch()
    clock = 1_050
    watcher.check()
    watcher.check()
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
