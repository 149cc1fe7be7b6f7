/** Access lists beside flashblocks name keys. Other data is no access list, or too large. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { accessKeysIn, readAccessKeys } from '../../../engine/flashblocks/access-list.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { Refusal } from '../../../engine/primitives/json-fields.ts'
import { encodeRlp, type RlpItem } from '../../../engine/primitives/rlp.ts'

const BOUNDS = { bytes: 10_000, items: 5 }
const address = (byte: number): Bytes => new Uint8Array(20).fill(byte)
const word = (byte: number): Bytes => new Uint8Array(32).fill(byte)
const n = (value: number): Bytes => Uint8Array.of(value)
/**
 * The list has the EIP's form: one slot changed in two transactions, two that are read, a balance,
 * a nonce, a code.
 */
const ACCOUNT: RlpItem = [
  address(1),
  [
    [
      word(2),
      [
        [n(1), word(3)],
        [n(2), word(4)],
      ],
    ],
  ],
  // Some versions write numbers in their shortest form.
  [word(5), n(7)],
  [[n(1), n(9)]],
  [[n(1), n(1)]],
  [[n(1), hexToBytes('0x5f')]],
]
const listOf = (...accounts: readonly RlpItem[]) => ({
  access_list: bytesToHex(encodeRlp(accounts)),
})
const read = (metadata: { readonly [key: string]: unknown }) => {
  const keys = accessKeysIn(metadata, BOUNDS)
  return keys && { accounts: keys.accounts.map(bytesToHex), slots: keys.slots.map(bytesToHex) }
}

test('an access list names accounts, changed slots and read slots', () => {
  const own = bytesToHex(address(1))
  const other: RlpItem = [address(6), [], [], [], [], []]
  expect(read(listOf(ACCOUNT, other))).toEqual({
    accounts: [own, bytesToHex(address(6))],
    slots: [
      own + bytesToHex(word(2)).slice(2),
      own + bytesToHex(word(5)).slice(2),
      own + '07'.padStart(64, '0'),
    ],
  })
})
test.each([
  ['absent', {}],
  ['null', { access_list: null }],
])('metadata without an access list gives no keys: %s', (_, metadata) => {
  expect(read(metadata)).toBeUndefined()
})
test('an empty access list gives empty lists of keys', () => {
  expect(read(listOf())).toEqual({ accounts: [], slots: [] })
})

const slots = (count: number) => Array.from({ length: count }, (_, at) => n(at + 1))
const wrong: [name: string, metadata: object, field: string][] = [
  ['a number instead of hex', { access_list: 7 }, 'access-list'],
  ['an object instead of hex', { access_list: { accounts: [] } }, 'access-list'],
  ['half a byte', { access_list: '0xc' }, 'access-list'],
  ['letters that are not hex', { access_list: '0xzz' }, 'access-list'],
  ['no bytes', { access_list: '0x' }, 'access-list'],
  ['bytes instead of a list', { access_list: '0x81ff' }, 'access-list'],
  ['extra bytes', { access_list: '0xc000' }, 'access-list'],
  ['a list that is cut off', { access_list: '0xc3c0' }, 'access-list'],
  ['an account that is not a list', listOf(address(1)), 'access-list'],
  ['an account with five fields', listOf([address(1), [], [], [], []]), 'access-list'],
  ['an account with seven fields', listOf([address(1), [], [], [], [], [], []]), 'access-list'],
  ['an address of 19 bytes', listOf([new Uint8Array(19), [], [], [], [], []]), 'access-list'],
  ['an address that is a list', listOf([[], [], [], [], [], []]), 'access-list'],
  ['a slot of 33 bytes', listOf([address(1), [], [new Uint8Array(33)], [], [], []]), 'access-list'],
  ['a change without a slot', listOf([address(1), [[]], [], [], [], []]), 'access-list'],
  ['a change that is not a list', listOf([address(1), [n(1)], [], [], [], []]), 'access-list'],
  ['balances that are not a list', listOf([address(1), [], [], n(1), [], []]), 'access-list'],
  ['too many slots', listOf([address(1), [], slots(5), [], [], []]), 'access-list-size'],
  [
    'too many accounts',
    listOf(...Array.from({ length: 6 }, (_, at) => [address(at), [], [], [], [], []])),
    'access-list-size',
  ],
  ['too many bytes', { access_list: `0x${'c0'.repeat(10_001)}` }, 'access-list-size'],
]
test.each(wrong)('an access list is refused for %s', (_, metadata, field) => {
  const run = () => accessKeysIn(metadata as { readonly [key: string]: unknown }, BOUNDS)
  expect(run).toThrow(Refusal)
  expect(run).toThrow(expect.objectContaining({ field }))
})
test('an access list may have as many items as the limit', () => {
  expect(read(listOf([address(1), [], slots(4), [], [], []]))?.slots).toHaveLength(4)
})
test('any bytes give access keys or a refusal', () => {
  const any = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    fc
      .tuple(fc.nat(400), fc.integer({ min: 0, max: 255 }))
      .map(([at, byte]) => encodeRlp([ACCOUNT, ACCOUNT]).with(at % 300, byte)),
  )
  fc.assert(
    fc.property(any, (bytes) => {
      try {
        const keys = readAccessKeys(bytes, 100)
        for (const account of keys.accounts) expect(account.length).toBe(20)
        for (const slot of keys.slots) expect(slot.length).toBe(52)
      } catch (error) {
        expect(error).toBeInstanceOf(Refusal)
      }
    }),
  )
})
