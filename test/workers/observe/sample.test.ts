import { expect, test } from 'vitest'
import { createSampler } from '../../../workers/observe/sample.ts'

test('the first of a kind, then one in a while with how many there were', () => {
  let time = 0
  const lines: string[] = []
  const say = createSampler(
    10_000,
    () => time,
    (line) => lines.push(line),
  )
  const steps: [atMs: number, kind: string, message: string][] = [
    [0, 'refused', 'a'],
    [1, 'refused', 'b'],
    [2, 'lost', 'c'],
    [9_999, 'refused', 'd'],
    [10_000, 'refused', 'e'],
    [20_001, 'refused', 'f'],
  ]
  for (const [atMs, kind, message] of steps) {
    time = atMs
    say(kind, message)
  }
  expect(lines).toEqual(['a', 'c', 'e (and 2 before it)', 'f'])
})
