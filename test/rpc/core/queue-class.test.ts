import { expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import {
  DEAR_US,
  longestMs,
  longestResponseMs,
  QUEUE_CLASS_NAMES,
  QUEUE_CLASSES,
  queueClassFor,
  singleCallClass,
  timeoutMsOf,
} from '../../../rpc/core/queue-class.ts'

test('a call gets the queue class of its kind and cost', () => {
  const queueClasses = [0, 299, 300, DEAR_US - 1, DEAR_US, Number.POSITIVE_INFINITY].map((micros) =>
    queueClassFor('call', micros),
  )
  expect(queueClasses).toEqual(['light', 'light', 'medium', 'medium', 'dear', 'dear'])
  expect([
    queueClassFor('front', 0),
    queueClassFor('trace', 0),
    queueClassFor('logs', DEAR_US),
  ]).toEqual(['light', 'trace', 'logs'])
})

test('a cost that is only a guess counts if it says that a call is long', () => {
  expect(queueClassFor('call', 400, false)).toBe('unsure')
  expect(queueClassFor('call', DEAR_US, false)).toBe('dear')
  expect(queueClassFor('trace', 0, false)).toBe('trace')
})

test('each kind has its timeout, and the longest one covers all of them', () => {
  const limits = { ...DEFAULT_LIMITS, callMs: 1, traceMs: 2, logsMs: 3, sidecarMs: 40_000 }
  expect([
    timeoutMsOf('front', limits),
    timeoutMsOf('call', limits),
    timeoutMsOf('trace', limits),
  ]).toEqual([1, 1, 2])
  expect(longestMs(limits)).toBe(40_000)
})

test('the longest response includes what a request waits for', () => {
  const holds = { placeWaitMs: 100, shownHoldMs: 20, announcedHoldMs: 3 }
  const limits = { ...DEFAULT_LIMITS, traceMs: 40_000, ...holds }
  expect(longestResponseMs(limits)).toBe(40_123)
  expect(longestResponseMs({ ...limits, syncSendMs: 60_000, sequencerMs: 7_000 })).toBe(67_000)
  expect(longestResponseMs({ ...limits, legacyMs: 90_000 })).toBe(90_000)
  expect(longestResponseMs({ ...limits, forwardMs: 80_000 })).toBe(80_000)
})

test.each(QUEUE_CLASS_NAMES)(
  '%s: its kind takes calls of every cost, and has a class for single calls',
  (queueClass) => {
    const { runs } = QUEUE_CLASSES[queueClass]
    const kind = QUEUE_CLASS_NAMES.filter((one) => QUEUE_CLASSES[one].runs === runs).map(
      (one) => QUEUE_CLASSES[one],
    )
    expect(kind.filter(({ fromUs }) => fromUs === 0)).toHaveLength(1)
    expect(QUEUE_CLASSES[singleCallClass(queueClass)]).toMatchObject({
      runs,
      taskUs: 0,
      isLong: true,
    })
    // A kind has one deadline, because the deadline is set before the queue class is known.
    expect(new Set(kind.map(({ deadline }) => deadline)).size).toBe(1)
  },
)
