import { expect, test } from 'vitest'
import {
  aloneLane,
  DEAR_US,
  LANE_NAMES,
  LANES,
  laneFor,
  laneMs,
  longestMs,
} from '../../../rpc/seam/lane.ts'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'

test('a call goes to the lane of its kind, by its cost', () => {
  const lanes = [0, 299, 300, DEAR_US - 1, DEAR_US, Number.POSITIVE_INFINITY].map((micros) =>
    laneFor('call', micros),
  )
  expect(lanes).toEqual(['light', 'light', 'medium', 'medium', 'dear', 'dear'])
  expect([laneFor('front', 0), laneFor('trace', 0), laneFor('logs', DEAR_US)]).toEqual([
    'light',
    'trace',
    'logs',
  ])
})

test('a guess is believed where it says that a call is long', () => {
  expect(laneFor('call', 400, false)).toBe('unsure')
  expect(laneFor('call', DEAR_US, false)).toBe('dear')
  expect(laneFor('trace', 0, false)).toBe('trace')
})

test('the deadline of any call is one of the rows', () => {
  const limits = { ...DEFAULT_LIMITS, callMs: 1, traceMs: 2, logsMs: 3, sidecarMs: 40_000 }
  expect([laneMs('front', limits), laneMs('call', limits), laneMs('trace', limits)]).toEqual([
    1, 1, 2,
  ])
  expect(longestMs(limits)).toBe(40_000)
})

test.each(LANE_NAMES)(
  '%s: its kind takes calls of every cost, and has a lane of single ones',
  (lane) => {
    const { runs } = LANES[lane]
    const kind = LANE_NAMES.filter((one) => LANES[one].runs === runs).map((one) => LANES[one])
    expect(kind.filter(({ fromUs }) => fromUs === 0)).toHaveLength(1)
    expect(LANES[aloneLane(lane)]).toMatchObject({ runs, taskUs: 0, isLong: true })
    // One deadline for a kind: it is told before anybody knows the lane.
    expect(new Set(kind.map(({ deadline }) => deadline)).size).toBe(1)
  },
)
