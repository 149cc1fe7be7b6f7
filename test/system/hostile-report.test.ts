/** How `npm run hostile` judges the flashblocks of a row: a lag of the one that reads excuses what came in it, and nothing else. */
import { expect, test } from 'vitest'
import { checkFeed, isSuffered, type Seen } from '../outside/hostile/report.ts'
import { watchLag } from '../outside/soak/lag.ts'

const TICK_MS = 20

test('the lag of a thread is that of the moment', () => {
  const lag = watchLag(TICK_MS, 0)
  expect([lag.tick(20), lag.at(25)]).toEqual([0, 0])
  // It stood still: what came meanwhile is read before the timer, or just after it.
  expect([lag.at(340), lag.tick(340), lag.at(341)]).toEqual([300, 300, 300])
  expect([lag.tick(360), lag.at(361), lag.at(395)]).toEqual([0, 0, 15])
})

type Late = readonly [ms: number, ownMs: number]
const HEARD = { count: 80, p50: 3, p99: 40, max: 50, failures: [], ownLagMs: 2, referenceMs: 10 }
const NONE = { frontMs: 0, frontWaitedMs: 0, nodeMs: 0, ownMs: 0, machineMs: 0 }
const seenWith = (more: Partial<Seen['heard']>, late: readonly Late[] = []): Seen => ({
  heard: { ...HEARD, ...more },
  feed: {
    ...{ flashblocks: late.length, blocks: 50, worst: [], gaps: [] },
    late: late.map(([ms]) => ms),
    ownLate: late.map(([, ms]) => ms),
    ownLag: [300],
  },
  ...{ growthMb: 10, calmLooks: 1, processor: NONE },
  told: { outcomes: {}, slowest: [], processorMs: 0 },
})

const cases: [name: string, late: Late[], referenceMs: number, isRight: boolean][] = [
  ['none late', [[20, 0]], 0, true],
  ['late with the reader', [[320, 300]], 0, true],
  [
    'late, and the reader at another time',
    [
      [20, 300],
      [320, 0],
      [330, 0],
    ],
    0,
    false,
  ],
  ['later than two cadences, once', [[450, 40]], 0, false],
  ['later than two cadences, as the machine is', [[450, 40]], 20, true],
]
test.each(cases)('%s', (_name, some, referenceMs, isRight) => {
  const filled = [...some, ...Array.from({ length: 250 }, () => [20, 0] as const)]
  const results: boolean[] = []
  checkFeed((_what, isGood) => void results.push(isGood), [seenWith({ referenceMs }, filled)], 50)
  expect(results).toEqual([isRight, true])
})

const answers: [name: string, heard: Partial<Seen['heard']>, isRight: boolean][] = [
  ['within a quarter of a second', {}, true],
  ['slower than the machine', { p99: 300 }, false],
  ['as slow as the machine', { p99: 300, referenceMs: 20 }, true],
  ['one without an answer', { failures: ['eth_call: no answer'] }, false],
]
test.each(answers)('honest clients: %s', (_name, heard, isRight) => {
  expect(isSuffered(seenWith(heard))).toBe(isRight)
})
