/** Commands that take longer than two seconds say how far they are, also while the part in hand says nothing. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { showRecording } from '../../../workers/commands/follow/record-progress.ts'
import { startParts } from '../../../workers/commands/shared/parts.ts'

const said: string[] = []
const log = { info: (text: string) => void said.push(text) } as never
const context = { log, isTerminal: false }
beforeEach(() => {
  said.length = 0
  vi.useFakeTimers()
})
afterEach(() => vi.useRealTimers())

test('a part that waits is shown without a word of it', () => {
  const parts = startParts(context)
  parts.update({ part: 'machine', done: 0, total: 4 })
  vi.advanceTimersByTime(500)
  parts.update({ part: 'feed', done: 1, total: 4 })
  vi.advanceTimersByTime(30_000)
  parts.stop()
  expect(said[0]).toMatch(/^25 %, feed, 1 done, \d+ s left$/)
  expect(said.length).toBeGreaterThan(2)
  expect(said.join()).not.toContain('machine')
})

test('nothing is shown of what takes two seconds, nor when it is over', () => {
  const parts = startParts(context)
  parts.update({ part: 'feed', done: 1, total: 4 })
  vi.advanceTimersByTime(1_900)
  parts.stop()
  vi.advanceTimersByTime(60_000)
  expect(said).toEqual([])
})

test('a record says how much of its time and of its bytes is over', () => {
  const hide = showRecording({ seconds: 600, megabytes: 256, bytes: () => 3 * 2 ** 20 }, context)
  vi.advanceTimersByTime(61_000)
  hide()
  vi.advanceTimersByTime(600_000)
  expect(said).toEqual([
    '5 %, 3.0 of 256 MB are recorded, 10 min left',
    '10 %, 3.0 of 256 MB are recorded, 9 min left',
  ])
})
