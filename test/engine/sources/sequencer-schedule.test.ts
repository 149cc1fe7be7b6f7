import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  CATCH_UP_BLOCKS,
  createChainClock,
  gasQuota,
  nextTimestamp,
  punctualTimestamp,
  SEAL_LEAD_MS,
  scheduleOf,
} from '../../../engine/sources/sequencer/schedule.ts'

const timing = { blockTimeMs: 1000, flashblockTimeMs: 200 }
const at = (seconds: number, ms = 0) => seconds * 1000 + ms

describe('the next timestamp', () => {
  const cases: [name: string, parent: bigint, now: number, next: bigint][] = [
    ['on time', 100n, at(100), 101n],
    ['a moment early', 100n, at(99, 985), 101n],
    ['one block late', 100n, at(101, 500), 101n],
    ['late by the maximum number of blocks to catch up', 100n, at(101 + CATCH_UP_BLOCKS), 101n],
    ['later than that: the current slot', 100n, at(112, 1), 113n],
    ['after hours', 100n, at(30_000, 250), 30_001n],
  ]
  test.each(cases)('is right for this clock: %s', (_, parent, now, next) => {
    expect(nextTimestamp(parent, now, timing)).toBe(next)
  })

  const seconds: [name: string, now: number, next: bigint][] = [
    ['the parent is in the future', at(98, 500), 101n],
    ['at the parent’s time', at(100), 101n],
    ['a timer was late', at(100, 100), 101n],
    ['a moment too late for the next slot', at(100, 101), 102n],
    ['two seconds late', at(102, 111), 104n],
    ['hours late', at(30_000), 30_001n],
  ]
  test.each(seconds)('of the second block is punctual: %s', (_, now, next) => {
    expect(punctualTimestamp(100n, now, timing)).toBe(next)
    expect(scheduleOf(next, now, timing).targetIndex).toBe(5)
  })

  test('of a block of two seconds stays on the grid of two seconds', () => {
    const slow = { blockTimeMs: 2000, flashblockTimeMs: 250 }
    expect(nextTimestamp(100n, at(100), slow)).toBe(102n)
    const late = nextTimestamp(100n, at(201), slow)
    expect(late % 2n).toBe(0n)
    expect(late).toBe(202n)
  })

  test('is above the parent and at most one block ahead of the clock', () => {
    fc.assert(
      fc.property(fc.nat({ max: 10_000_000 }), (lag) => {
        const next = nextTimestamp(1_000n, at(1_000) + lag, timing)
        expect(next).toBeGreaterThan(1_000n)
        expect(Number(next) * 1000).toBeLessThanOrEqual(at(1_001) + lag)
      }),
    )
  })
})

describe('the schedule of a block', () => {
  test('on time has index 0 at the start, ticks each 200 ms and a seal before the end', () => {
    const schedule = scheduleOf(101n, at(99, 995), timing)
    expect(schedule).toEqual({
      startAt: at(100) - SEAL_LEAD_MS,
      firstAt: at(100),
      ticks: [at(100, 200), at(100, 400), at(100, 600), at(100, 800)],
      sealAt: at(101) - SEAL_LEAD_MS,
      targetIndex: 5,
    })
  })

  const late: [name: string, now: number, target: number][] = [
    ['early', at(99, 970), 5],
    ['300 ms after the start', at(100, 300), 4],
    ['just before a tick', at(100, 390), 3],
    ['time for index 1 alone', at(100, 900), 1],
    ['no time at all', at(100, 970), 0],
    ['after the end of the block', at(103), 0],
  ]
  test.each(late)('has as many flashblocks as the time allows: %s', (_, now, target) => {
    expect(scheduleOf(101n, now, timing).targetIndex).toBe(target)
  })

  test('keeps ticks apart from each other and from the seal, as many as announced', () => {
    fc.assert(
      fc.property(fc.integer({ min: -100, max: 1_500 }), (offset) => {
        const now = at(100) + offset
        const { firstAt, ticks, sealAt, targetIndex } = scheduleOf(101n, now, timing)
        expect(firstAt).toBeGreaterThanOrEqual(now)
        const times = [firstAt, ...ticks, sealAt]
        if (targetIndex === 0) expect(ticks).toEqual([])
        else {
          expect(targetIndex).toBe(1 + ticks.length)
          for (let index = 1; index < times.length; index++)
            expect(times[index]! - times[index - 1]!).toBeGreaterThanOrEqual(25)
          for (let index = 1; index < ticks.length; index++)
            expect(ticks[index]! - ticks[index - 1]!).toBe(200)
        }
      }),
    )
  })
})

describe('the gas quota', () => {
  test('grows by equal parts, and the last index has the whole block', () => {
    expect([1, 2, 3].map((index) => gasQuota(50_000_000n, index, 3))).toEqual([
      16_666_666n,
      33_333_333n,
      50_000_000n,
    ])
    expect(gasQuota(50_000_000n, 7, 3)).toBe(50_000_000n)
  })
})

describe('the chain clock', () => {
  function clockAt(ms: number) {
    const real = { ms }
    return { real, clock: createChainClock(() => real.ms, timing) }
  }

  test('follows the real clock when the chain is not ahead', () => {
    const { real, clock } = clockAt(at(100))
    clock.align(at(99))
    real.ms += 250
    expect(clock.now()).toBe(at(100, 250))
  })

  test('continues through a backward jump inside a block', () => {
    const { real, clock } = clockAt(at(7200))
    clock.align(at(7200))
    expect(clock.now()).toBe(at(7200))
    real.ms = at(3600)
    expect(clock.now()).toBe(at(7200))
    real.ms += 200
    expect(clock.now()).toBe(at(7200, 200))
  })

  test('keeps the chain’s time while the chain is ahead, and returns to the real clock', () => {
    const { real, clock } = clockAt(at(3600))
    clock.align(at(7200))
    real.ms += 980
    expect(clock.now()).toBe(at(7200, 980))
    real.ms = at(7201)
    clock.align(at(7201))
    expect(clock.now()).toBe(at(7201))
  })

  test('follows a forward jump at once', () => {
    const { real, clock } = clockAt(at(100))
    clock.align(at(100))
    real.ms = at(3700)
    expect(clock.now()).toBe(at(3700))
  })
})
