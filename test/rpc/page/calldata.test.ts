/** The page describes calldata in words. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { decodeCalldata } from '../../../rpc/page/calldata.ts'

const source = readFileSync(new URL('../../../rpc/page/calldata.ts', import.meta.url), 'utf8')
const known = [...source.matchAll(/'(0x[0-9a-f]{8})':\s+'(\w+)\((.*)\)'/g)].map(
  ([, selector, name, list]) => [selector!, name!, list!] as const,
)

test('the source has a table of functions', () => expect(known.length).toBeGreaterThan(20))

test.each(known)('%s is the selector of %s(%s)', (selector, name, list) => {
  const types = list === '' ? [] : list.split(', ').map((param) => param.split(' ')[0])
  const signature = new TextEncoder().encode(`${name}(${types.join(',')})`)
  expect(bytesToHex(keccak256(signature)).slice(0, 10)).toBe(selector)
})

const word = (hex: string) => hex.padStart(64, '0')
const ADDRESS = 'ab'.repeat(20)

describe('decoded calldata', () => {
  test.each([
    [
      `0xa9059cbb${word(ADDRESS)}${word('7b')}`,
      {
        name: 'transfer',
        args: [
          { name: 'to', value: `0x${ADDRESS}` },
          { name: 'value', value: '123' },
        ],
      },
    ],
    [
      `0x095ea7b3${word(ADDRESS)}${'f'.repeat(64)}`,
      {
        name: 'approve',
        args: [
          { name: 'spender', value: `0x${ADDRESS}` },
          { name: 'value', value: 'max' },
        ],
      },
    ],
    [
      `0x128acb08${word(ADDRESS)}${word('1')}${'f'.repeat(64)}${word('2')}${word('a0')}`,
      {
        name: 'swap',
        args: [
          { name: 'recipient', value: `0x${ADDRESS}` },
          { name: 'zeroForOne', value: 'true' },
          { name: 'amount', value: '-1' },
          { name: 'limit', value: '2' },
          { name: 'data', value: '…' },
        ],
      },
    ],
    ['0x18160ddd', { name: 'totalSupply', args: [] }],
    // The inputs are too short, unknown, or empty.
    [`0xa9059cbb${word(ADDRESS)}`, undefined],
    ['0xdeadbeef', undefined],
    ['0x', undefined],
  ])('has the function and its arguments, if it is known: %s', (input, decoded) =>
    expect(decodeCalldata(input)).toEqual(decoded),
  )
})
