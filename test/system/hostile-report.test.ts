/**
 * `npm run hostile` judges the flashblocks of a row. A lag of the reader excuses the flashblocks
 * that arrived during the lag, and no others.
 */
import { expect, test } from 'vitest'
import { checkFeed, isTolerated, type Seen } from '../outside/hostile/report.ts'
import { watchLag } from '../outside/soak/lag.ts'

const TICK_MS = 20

test('the measured lag of a thread is the lag at that time', () => {
  const lag = watchLag(TICK_MS, 0)
  expect([lag.tick(20), lag.at(25)]).toEqual([0, 0])
  // The reader stood still. It reads what arrived meanwhile before the timer fires, or just after.
  expect([lag.at(340), lag.tick(340), lag.at(341)]).toEqual([300, 300, 300])
  expect([lag.tick(360), lag.at(361), lag.at(395)]).toEqual([0, 0, 15])
})

type Late = readonly [ms: number, ownMs: number]
const LATENCIES = {
  count: 80,
  p50: 3,
  p99: 40,
  max: 50,
  failures: [],
  ownLagMs: 2,
  referenceMs: 10,
}
const NONE = { frontMs: 0, frontWaitedMs: 0, nodeMs: 0, ownMs: 0, machineMs: 0 }
const seenWith = (more: Partial<Seen['latencies']>, late: readonly Late[] = []): Seen => ({
  latencies: { ...LATENCIES, ...more },
  feed: {
    flashblocks: late.length,
    blocks: 50,
    worst: [],
    gaps: [],
    late: late.map(([ms]) => ms),
    ownLate: late.map(([, ms]) => ms),
    ownLag: [300],
  },
  growthMb: 10,
  calmChecks: 1,
  processor: NONE,
  reported: { outcomes: {}, slowest: [], processorMs: 0 },
})

const cases: [name: string, late: Late[], referenceMs: number, isRight: boolean][] = [
  ['no flashblock late', [[20, 0]], 0, true],
  ['late because the reader was late', [[320, 300]], 0, true],
  [
    'late at another time than the reader',
    [
      [20, 300],
      [320, 0],
      [330, 0],
    ],
    0,
    false,
  ],
  ['once later than two cadences', [[450, 40]], 0, false],
  ['later than two cadences on a slow machine', [[450, 40]], 20, true],
]
test.each(cases)('flashblocks of a row are judged: %s', (_name, some, referenceMs, isRight) => {
  const filled = [...some, ...Array.from({ length: 250 }, () => [20, 0] as const)]
  const results: boolean[] = []
  checkFeed((_what, isGood) => void results.push(isGood), [seenWith({ referenceMs }, filled)], 50)
  expect(results).toEqual([isRight, true])
})

const responses: [name: string, latencies: Partial<Seen['latencies']>, isRight: boolean][] = [
  ['all within a quarter of a second', {}, true],
  ['slow on a fast machine', { p99: 300 }, false],
  ['slow on a slow machine', { p99: 300, referenceMs: 20 }, true],
  ['a request without a response', { failures: ['eth_call: no answer'] }, false],
]
test.each(responses)('latencies of honest clients are judged: %s', (_name, latencies, isRight) => {
  expect(isTolerated(seenWith(latencies))).toBe(isRight)
})
