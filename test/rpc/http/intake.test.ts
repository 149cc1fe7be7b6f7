/** Received bytes are all counted, no limit is exceeded, and no client blocks others. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createIntake } from '../../../rpc/http/intake.ts'

/** Makes an intake beside a plain model. */
function watched(bodiesBytes: number, bodiesBytesPerClient: number) {
  const intake = createIntake({ bodiesBytes, bodiesBytesPerClient })
  type One = { readonly key: string; bytes: number; isCut: boolean }
  const all: One[] = []
  const of = (key?: string) =>
    all.reduce((sum, one) => sum + (key === undefined || one.key === key ? one.bytes : 0), 0)
  function open(key: string) {
    const one: One = { key, bytes: 0, isCut: false }
    all.push(one)
    const reservation = intake.open(key, () => {
      release()
      one.isCut = true
    })
    function release() {
      reservation.release()
      one.bytes = 0
    }
    const take = (bytes: number) => {
      const isTaken = reservation.take(bytes)
      if (isTaken) one.bytes += bytes
      return isTaken
    }
    return { one, take, release }
  }
  return { intake, open, of }
}

test('received bytes stay within both limits, and smaller clients are never cut', () => {
  const step = fc.record({
    key: fc.constantFrom('a', 'b', 'c'),
    bytes: fc.nat(60),
    what: fc.constantFrom('open', 'more', 'release'),
    at: fc.nat(5),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const { intake, open, of } = watched(150, 100)
      const opened: ReturnType<typeof open>[] = []
      for (const { key, bytes, what, at } of steps) {
        if (what === 'open') opened.push(open(key))
        const some = what === 'open' ? opened.at(-1) : opened[at]
        if (some === undefined) continue
        const own = of(some.one.key)
        const before = new Map(['a', 'b', 'c'].map((one) => [one, of(one)]))
        const others = Math.max(
          ...[...before].map(([one, sum]) => (one === some.one.key ? 0 : sum)),
        )
        if (what === 'release') some.release()
        else if (some.take(bytes)) {
          expect(of(some.one.key)).toBe(own + bytes)
          expect(own + bytes).toBeLessThanOrEqual(100)
          for (const [one, sum] of before)
            if (of(one) < sum) expect(sum).toBeGreaterThan(own + bytes)
        } else if (own + bytes <= 100) expect(others).toBeLessThan(150)
        expect(intake.bytes).toBe(of())
        expect(of()).toBeLessThanOrEqual(150)
      }
      for (const one of opened) one.release()
      expect([intake.bytes, open('a').take(100), open('a').take(1)]).toEqual([0, true, false])
    }),
  )
})

describe('a full intake', () => {
  test('cuts the largest body of the largest client for a smaller client', () => {
    const { intake, open } = watched(160, 40)
    const taken = ['a', 'b', 'c', 'd'].map((key) => [open(key), open(key)] as const)
    for (const [small, large] of taken)
      expect([small.take(10), large.take(30)]).toEqual([true, true])
    const honest = open('e')
    expect(honest.take(15)).toBe(true)
    expect(taken.map(([small, large]) => [small.one.isCut, large.one.isCut])).toEqual([
      [false, true],
      [false, false],
      [false, false],
      [false, false],
    ])
    expect(intake.bytes).toBe(145)
    expect(honest.take(20)).toBe(true)
    expect(honest.one.isCut).toBe(false)
  })
  test('cuts no body when even all larger clients could not free enough', () => {
    const { intake, open } = watched(100, 80)
    const keys = ['a', 'b', 'c']
    const taken = keys.map((key) => open(key))
    for (const [at, bytes] of [40, 30, 30].entries()) expect(taken[at]!.take(bytes)).toBe(true)
    expect(open('d').take(30)).toBe(true)
    expect(taken.map(({ one }) => one.isCut)).toEqual([true, false, false])
    expect(open('e').take(50)).toBe(false)
    expect(taken.map(({ one }) => one.isCut)).toEqual([true, false, false])
    expect(intake.bytes).toBe(90)
  })
})
