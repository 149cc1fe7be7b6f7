/**
 * Commands that take longer than two seconds report their progress, even while the present part
 * reports nothing.
 */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { displayRecording } from '../../../workers/commands/follow/recording.ts'
import { startParts } from '../../../workers/commands/shared/parts.ts'

const said: string[] = []
const log = { info: (text: string) => void said.push(text) } as never
const context = { log, isTerminal: false }
beforeEach(() => {
  said.length = 0
  vi.useFakeTimers()
})
afterEach(() => vi.useRealTimers())

test('a part that waits is not displayed', () => {
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

test('nothing is displayed in the first two seconds, or after the end', () => {
  const parts = startParts(context)
  parts.update({ part: 'feed', done: 1, total: 4 })
  vi.advanceTimersByTime(1_900)
  parts.stop()
  vi.advanceTimersByTime(60_000)
  expect(said).toEqual([])
})

test('a recording displays its elapsed time and its bytes', () => {
  const hide = displayRecording({ seconds: 600, megabytes: 256, bytes: () => 3 * 2 ** 20 }, context)
  vi.advanceTimersByTime(61_000)
  hide()
  vi.advanceTimersByTime(600_000)
  expect(said).toEqual([
    '5 %, 3.0 of 256 MB are recorded, 10 min left',
    '10 %, 3.0 of 256 MB are recorded, 9 min left',
  ])
})
