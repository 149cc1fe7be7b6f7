/** How `npm run hostile` judges the flashblocks of a row: a lag of the one that reads excuses what came in it, and nothing else. */
import { expect, test } from 'vitest'
import { checkFeed } from '../outside/hostile/report.ts'
import { watchLag } from '../outside/soak/lag.ts'

const TICK_MS = 20

test('the lag of a thread is that of the moment', () => {
  const lag = watchLag(TICK_MS, 0)
  expect([lag.tick(20), lag.at(25)]).toEqual([0, 0])
  // It stood still: what came meanwhile is read before the timer, or just after it.
  expect([lag.at(340), lag.tick(340), lag.at(341)]).toEqual([300, 300, 300])
  expect([lag.tick(360), lag.at(361), lag.at(395)]).toEqual([0, 0, 15])
})

const cases: [name: string, late: [ms: number, ownMs: number][], isRight: boolean][] = [
  ['none late', [[20, 0]], true],
  ['late with the reader', [[320, 300]], true],
  [
    'late, and the reader at another time',
    [
      [20, 300],
      [320, 0],
      [330, 0],
    ],
    false,
  ],
  ['later than two cadences, once', [[450, 40]], false],
]
test.each(cases)('%s', (_name, some, isRight) => {
  const filled = [...some, ...Array.from({ length: 250 }, () => [20, 0] as const)]
  const results: boolean[] = []
  const seen = {
    ...{ flashblocks: filled.length, blocks: 50, worst: [], gaps: [] },
    late: filled.map(([ms]) => ms),
    ownLate: filled.map(([, ms]) => ms),
    ownLag: [300],
  }
  checkFeed((_what, isGood) => void results.push(isGood), [seen], 50)
  expect(results).toEqual([isRight, true])
})
