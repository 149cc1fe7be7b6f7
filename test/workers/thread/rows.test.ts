import { describe, expect, test } from 'vitest'
import {
  allRows,
  allThreads,
  claimRow,
  createClaims,
  divide,
  FRONT_ROW,
  frontThreadRow,
  POOL_ROW,
  SOURCE_ROW,
  WRITER_ROW,
} from '../../../workers/thread/rows.ts'

describe('the threads that run calls', () => {
  test.each([
    { poolThreads: 7, fronts: 1, division: { own: 7, frontThreads: 0, each: 0 } },
    { poolThreads: 15, fronts: 4, division: { own: 2, frontThreads: 4, each: 3 } },
    // With fewer than two threads, one long call would leave none to other calls.
    { poolThreads: 2, fronts: 3, division: { own: 2, frontThreads: 3, each: 2 } },
  ])(
    'are divided among the fronts: $poolThreads for $fronts',
    ({ poolThreads, fronts, division }) => {
      expect(divide(poolThreads, fronts)).toEqual(division)
    },
  )
})

describe('the row of a thread', () => {
  test.each([
    { poolThreads: 3, fronts: 1 },
    { poolThreads: 8, fronts: 3 },
  ])('is unique, and a front comes before its workers: $fronts', ({ poolThreads, fronts }) => {
    const division = divide(poolThreads, fronts)
    const taken = [FRONT_ROW, WRITER_ROW, SOURCE_ROW]
    const claimAll = (threads: number, first?: number) => {
      const claims = createClaims(threads, first)
      for (let thread = 1; thread <= 2 * threads; thread++) taken.push(claimRow(claims, thread))
      expect(() => claimRow(claims, 999)).toThrow('no row of')
    }
    claimAll(division.own)
    for (let frontThread = 0; frontThread < division.frontThreads; frontThread++) {
      const row = frontThreadRow(division, frontThread)
      expect(row).toBe(taken.length)
      taken.push(row)
      claimAll(division.each, row + 1)
    }
    expect(taken).toEqual(taken.map((_, at) => at))
    expect(allRows(division)).toBe(taken.length)
    expect(allThreads(division)).toBeGreaterThanOrEqual(poolThreads)
    expect(POOL_ROW).toBe(3)
  })
})
