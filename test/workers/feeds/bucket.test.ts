import { expect, test } from 'vitest'
import { createBucket } from '../../../workers/feeds/bucket.ts'

/** At each moment: what is taken, and how long it is then until nothing is owed. */
const cases: [name: string, steps: [atMs: number, take: number, owedMs: number][]][] = [
  ['the burst is free', [[0, 10, 0]]],
  ['one more waits', [[0, 11, 200]]],
  [
    'what is owed goes with time',
    [
      [0, 20, 2_000],
      [500, 0, 1_500],
      [2_000, 0, 0],
    ],
  ],
  [
    'after that there is no burst at once',
    [
      [0, 20, 2_000],
      [2_000, 1, 200],
    ],
  ],
  [
    'no more than the burst is saved',
    [
      [3_600_000, 10, 0],
      [3_600_000, 1, 200],
    ],
  ],
  [
    'a steady rate never waits',
    [1, 2, 3, 4, 5, 6, 7, 8].map((second): [number, number, number] => [second * 1_000, 5, 0]),
  ],
]
test.each(cases)('%s', (_, steps) => {
  let time = 0
  const bucket = createBucket({ perSecond: 5, burst: 10 }, () => time)
  const seen = steps.map(([atMs, amount]) => {
    time = atMs
    bucket.take(amount)
    return bucket.owedMs()
  })
  expect(seen).toEqual(steps.map(([, , owedMs]) => owedMs))
})
