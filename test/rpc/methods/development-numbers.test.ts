/** Methods of a development chain take numbers like anvil, and refuse unknown fields. */
import { expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { breakControls } from '../../../rpc/methods/development/breaks.ts'
import { natural, wei } from '../../../rpc/methods/development/controls.ts'
import { depositMethod } from '../../../rpc/methods/development/deposit.ts'

const numbers: [wire: unknown, value: bigint][] = [
  ['0x10', 16n],
  ['0x0010', 16n],
  ['0X10', 16n],
  ['16', 16n],
  ['0', 0n],
  [16, 16n],
  ['0xffffffffffffffff', 2n ** 64n - 1n],
]
test.each(numbers)('a development method accepts the number %j', (wire, value) => {
  expect([natural.decode(wire), wei.decode(wire)]).toEqual([value, value])
})

test.each([-1, 1.5, 2 ** 53, '', '0x', 'ten', '-1', '1e3', null, {}, true, `0x1${'0'.repeat(16)}`])(
  'a development method refuses the number %j',
  (wire) => expect(() => natural.decode(wire)).toThrow(),
)

const [reorg, equivocate, , silence] = breakControls(async () => ({}))
const deposit = depositMethod(async () => new Uint8Array(32))
const unknown = [
  [reorg!, { dpth: 1 }, 'params[0]: unknown field "dpth", expected one of depth, keep'],
  [equivocate!, { kept: true }, 'params[0]: unknown field "kept", expected one of keep'],
  [silence!, { mss: 1 }, 'params[0]: unknown field "mss", expected one of ms'],
  [
    deposit,
    { form: '0x' },
    'params[0]: unknown field "form", expected one of from, to, mint, value, gas, data',
  ],
] as const
test.each(unknown)('%o refuses the unknown field in %j', (method, options, message) => {
  expect(() => method.decode([options], DEFAULT_LIMITS)).toThrow(
    expect.objectContaining({ code: -32602, message }),
  )
})
