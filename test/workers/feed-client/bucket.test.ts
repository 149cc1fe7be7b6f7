import { expect, test } from 'vitest'
import { createBucket } from '../../../workers/feed-client/bucket.ts'

/** Each step has a time, the amount taken, and the time until no debt is left. */
const cases: [name: string, steps: [atMs: number, take: number, owedMs: number][]][] = [
  ['a burst without debt', [[0, 10, 0]]],
  ['one more than the burst', [[0, 11, 200]]],
  [
    'debt that shrinks with time',
    [
      [0, 20, 2_000],
      [500, 0, 1_500],
      [2_000, 0, 0],
    ],
  ],
  [
    'no burst right after a debt',
    [
      [0, 20, 2_000],
      [2_000, 1, 200],
    ],
  ],
  [
    'an idle hour saves one burst',
    [
      [3_600_000, 10, 0],
      [3_600_000, 1, 200],
    ],
  ],
  [
    'a steady rate without debt',
    [1, 2, 3, 4, 5, 6, 7, 8].map((second): [number, number, number] => [second * 1_000, 5, 0]),
  ],
]
test.each(cases)('a bucket has the expected debt: %s', (_, steps) => {
  let time = 0
  const bucket = createBucket({ perSecond: 5, burst: 10 }, () => time)
  const seen = steps.map(([atMs, amount]) => {
    time = atMs
    bucket.take(amount)
    return bucket.owedMs()
  })
  expect(seen).toEqual(steps.map(([, , owedMs]) => owedMs))
})
