/** Transient storage is compared with a plain model: copies of a map, one for each frame. */
import { Address } from '@ethereumjs/util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Transient } from '../../../engine/evm/reference/transient.ts'
import { bigintToBytes, bytesToBigint } from '../../../engine/primitives/words.ts'

const addresses = [1, 2].map((low) => new Address(new Uint8Array(20).fill(low)))
const bytes32 = (value: bigint) => bigintToBytes(value, 32)
/** Makes a value like the interpreter: without leading zeros, and zero as no bytes. */
const shortest = (value: bigint) => {
  const bytes = bytes32(value)
  const start = bytes.findIndex((byte) => byte !== 0)
  return bytes.slice(start < 0 ? 32 : start)
}

const step = fc.oneof(
  fc.record({
    kind: fc.constant('put' as const),
    at: fc.nat({ max: 1 }),
    key: fc.bigInt({ min: 0n, max: 3n }),
    value: fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })),
  }),
  fc.record({ kind: fc.constantFrom('checkpoint', 'commit', 'revert', 'clear') }),
)

test('transient storage equals copies of a map after any sequence of steps', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const transient = new Transient()
      const frames = [new Map<string, bigint>()]
      for (const one of steps) {
        const top = frames.at(-1)!
        if (one.kind === 'put') {
          transient.put(addresses[one.at]!, bytes32(one.key), shortest(one.value))
          top.set(`${one.at} ${one.key}`, one.value)
        } else if (one.kind === 'checkpoint') {
          transient.checkpoint()
          frames.push(new Map(top))
        } else if (one.kind === 'clear') {
          transient.clear()
          frames.splice(0, frames.length, new Map())
        } else if (frames.length > 1) {
          frames.pop()
          if (one.kind === 'commit') frames[frames.length - 1] = top
          transient[one.kind]()
        }
        for (const at of [0, 1])
          for (let key = 0n; key < 4n; key++) {
            const value = transient.get(addresses[at]!, bytes32(key))
            const found = value.length === 0 ? 0n : bytesToBigint(value)
            expect(found).toBe(frames.at(-1)!.get(`${at} ${key}`) ?? 0n)
          }
      }
    }),
  )
})
