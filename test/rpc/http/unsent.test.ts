/** Unread responses may wait for a time by the given clock. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createUnsent } from '../../../rpc/http/unsent.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

test('each unread response is cut off at its own timeout', () => {
  let clock = 5_000
  const unsent = createUnsent({ unsentMs: 30_000, unsentBytes: 1_000 }, () => clock)
  const cut: string[] = []
  unsent.add(10, () => cut.push('a'))
  clock += 20_000
  unsent.add(10, () => cut.push('b'))
  const sent = unsent.add(10, () => cut.push('c'))
  vi.advanceTimersByTime(60_000)
  expect(cut).toEqual([])
  clock += 10_000
  vi.advanceTimersByTime(1_000)
  expect(cut).toEqual(['a'])
  sent()
  clock += 20_000
  vi.advanceTimersByTime(1_000)
  expect(cut).toEqual(['a', 'b'])
  expect(unsent.stats).toEqual({ responses: 0, bytes: 0, cut: 2 })
})
