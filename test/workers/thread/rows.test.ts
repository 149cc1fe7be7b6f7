import { describe, expect, test } from 'vitest'
import {
  allRows,
  allThreads,
  cellRow,
  claimRow,
  createClaims,
  divide,
  FRONT_ROW,
  POOL_ROW,
  SOURCE_ROW,
  WRITER_ROW,
} from '../../../workers/thread/rows.ts'

describe('threads that run calls, divided', () => {
  test.each([
    { poolThreads: 7, fronts: 1, division: { own: 7, cells: 0, each: 0 } },
    { poolThreads: 15, fronts: 4, division: { own: 2, cells: 4, each: 3 } },
    // Fewer than two would leave nothing to the others while one runs long.
    { poolThreads: 2, fronts: 3, division: { own: 2, cells: 3, each: 2 } },
  ])('$poolThreads for $fronts', ({ poolThreads, fronts, division }) => {
    expect(divide(poolThreads, fronts)).toEqual(division)
  })
})

describe('rows of threads', () => {
  test.each([
    { poolThreads: 3, fronts: 1 },
    { poolThreads: 8, fronts: 3 },
  ])('each has its own, a front before its workers: $fronts', ({ poolThreads, fronts }) => {
    const division = divide(poolThreads, fronts)
    const taken = [FRONT_ROW, WRITER_ROW, SOURCE_ROW]
    const claimAll = (threads: number, first?: number) => {
      const claims = createClaims(threads, first)
      for (let thread = 1; thread <= 2 * threads; thread++) taken.push(claimRow(claims, thread))
      expect(() => claimRow(claims, 999)).toThrow('no row of')
    }
    claimAll(division.own)
    for (let cell = 0; cell < division.cells; cell++) {
      const row = cellRow(division, cell)
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
