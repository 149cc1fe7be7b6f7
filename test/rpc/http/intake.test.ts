/** Bytes that are being received: none is forgotten, no bound is passed. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createIntake } from '../../../rpc/http/intake.ts'

test('counts what is held, within both bounds', () => {
  const step = fc.record({
    key: fc.constantFrom('a', 'b', 'c'),
    bytes: fc.nat(60),
    isTaken: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const intake = createIntake({ bodiesBytes: 150, bodiesBytesPerClient: 100 })
      const held: { readonly key: string; readonly bytes: number }[] = []
      const of = (key?: string) =>
        held.reduce((sum, one) => sum + (key === undefined || one.key === key ? one.bytes : 0), 0)
      for (const { key, bytes, isTaken } of steps) {
        if (isTaken) {
          const fits = of(key) + bytes <= 100 && of() + bytes <= 150
          expect(intake.take(key, bytes)).toBe(fits)
          if (fits) held.push({ key, bytes })
        } else {
          const one = held.shift()
          if (one !== undefined) intake.give(one.key, one.bytes)
        }
        expect(intake.bytes).toBe(of())
      }
      for (const { key, bytes } of held.splice(0)) intake.give(key, bytes)
      expect([intake.bytes, intake.take('a', 100), intake.take('b', 51)]).toEqual([0, true, false])
    }),
  )
})
