/**
 * Invalid parameters are refused with go-ethereum's texts where it has the method, otherwise with
 * the expected value and its JsonPath.
 */
import { describe, expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { boolean, object, strictObject } from '../../../rpc/json/schema.ts'
import { frontMethod, type Method, optional, param } from '../../../rpc/method/method.ts'
import { eth_getBalance } from '../../../rpc/methods/accounts-state.ts'
import { breakControls } from '../../../rpc/methods/development/breaks.ts'
import { dropMethods } from '../../../rpc/methods/development/drop.ts'

const controls = breakControls(() => Promise.reject(new Error('nothing is sent')))
const controlOf = (name: string): Method => controls.find((method) => method.name === name)!
const [drop] = dropMethods(() => {})
const made = (name: string): Method =>
  frontMethod({
    name,
    summary: '',
    params: [
      param('Switches', strictObject('Switches', { isOn: boolean })),
      optional('Others', object('Others', { isOn: boolean })),
    ],
    result: { name: 'Nothing', schema: {}, text: () => 'null' },
    handler: () => undefined,
  })

describe('invalid parameters', () => {
  const long = 'x'.repeat(100)
  const cases: [name: string, method: Method, params: unknown[], message: string][] = [
    [
      'a text instead of an object',
      controlOf('dev_reorg'),
      ['1'],
      'params[0]: expected an object {depth, keep}, got "1"',
    ],
    [
      'an array instead of an object',
      controlOf('dev_reorg'),
      [[]],
      'params[0]: expected an object {depth, keep}, got an array',
    ],
    [
      'a text instead of a boolean',
      controlOf('dev_reorg'),
      [{ keep: 'yes' }],
      'params[0].keep: expected true or false, got "yes"',
    ],
    [
      'a missing parameter',
      controlOf('dev_silence'),
      [],
      'params[0]: expected an object {ms}, got nothing',
    ],
    ['a short hash', drop!, ['0x12'], 'params[0]: expected 32 byte hex value, got "0x12"'],
    ['a number instead of a hash', drop!, [5], 'params[0]: expected 32 byte hex value, got 5'],
    [
      'a long text, which is cut in the message',
      drop!,
      [long],
      `params[0]: expected 32 byte hex value, got "${long.slice(0, 64)}"…`,
    ],
    [
      'an unknown field',
      made('dev_made'),
      [{ on: true }],
      'params[0]: unknown field "on", expected one of isOn',
    ],
    [
      'an unknown field of a method that go-ethereum has',
      made('eth_made'),
      [{ on: true }],
      'invalid argument 0: unknown field "on", expected one of isOn',
    ],
    [
      'another kind, of a method that go-ethereum has',
      made('eth_made'),
      [{ isOn: 1 }],
      'invalid argument 0: json: cannot unmarshal number into Go struct field Switches.isOn of type bool',
    ],
    [
      'an address, of a method that go-ethereum has',
      eth_getBalance,
      ['0x12'],
      'invalid argument 0: hex string has length 2, want 40 for common.Address',
    ],
    [
      'nothing, of a method that go-ethereum has',
      eth_getBalance,
      [],
      'missing value for required argument 0',
    ],
  ]
  test.each(cases)('are refused with a clear text: %s', (_name, method, params, message) => {
    expect(() => method.decode(params, DEFAULT_LIMITS)).toThrow(
      expect.objectContaining({ code: -32602, message }),
    )
  })
})

test('a lenient object ignores fields that a strict object refuses', () => {
  const decoded = made('dev_made').decode(
    [{ isOn: true }, { isOn: true, other: 1 }],
    DEFAULT_LIMITS,
  )
  expect(decoded).toEqual([{ isOn: true }, { isOn: true }])
})
