import { expect, test } from 'vitest'
import { createSampler } from '../../../workers/observe/sample.ts'

test('a sampler logs the first message of a kind, then one per interval with a count', () => {
  let time = 0
  const lines: string[] = []
  const sample = createSampler(
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
    sample(kind, message)
  }
  expect(lines).toEqual(['a', 'c', 'e (and 2 before it)', 'f'])
})
