/** Differences of two responses have a JsonPath and a kind; a list names the allowed ones. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  type CallOutcome,
  differencesOf,
  MAX_DIFFERENCES,
} from '../../../workers/commands/compare/differ.ts'
import { classified, readDeviations } from '../../../workers/commands/compare/known.ts'

const result = (value: unknown): CallOutcome => ({ result: value })
const refused = (code: number, message = 'no'): CallOutcome => ({ error: { code, message } })

const CASES: readonly [
  name: string,
  a: CallOutcome,
  b: CallOutcome,
  expected: readonly string[],
][] = [
  ['equal results', result({ a: [1, { b: null }] }), result({ a: [1, { b: null }] }), []],
  ['another order of members', result({ a: 1, b: 2 }), result({ b: 2, a: 1 }), []],
  ['another value', result({ a: { b: '0x1' } }), result({ a: { b: '0x2' } }), ['wrong a.b']],
  ['upper and lower case', result('0xaB'), result('0xab'), ['wrong ']],
  ['a missing member', result({ a: 1, b: 2 }), result({ a: 1 }), ['missing b']],
  ['null and a value', result(null), result({ a: 1 }), ['missing ']],
  ['another order of elements', result({ l: [1, 2, 3] }), result({ l: [3, 1, 2] }), ['order l']],
  ['an additional element', result([1, 2]), result([1, 2, 3]), ['missing [2]']],
  [
    'another value in an element',
    result([{ a: 1 }, { a: 2 }]),
    result([{ a: 1 }, { a: 3 }]),
    ['wrong [1].a'],
  ],
  ['another type', result(['0x1']), result('0x1'), ['wrong ']],
  ['only one refuses', result(1), refused(-32_601), ['missing error']],
  ['both refuse with the same code', refused(-32_000), refused(-32_000), []],
  ['both refuse with different codes', refused(-32_000), refused(-32_601), ['wrong error.code']],
]

describe('the differences of two responses', () => {
  test.each(CASES)('have a kind and a path: %s', (_, a, b, expected) => {
    expect(differencesOf(a, b).map(({ kind, path }) => `${kind} ${path}`)).toEqual(expected)
  })

  test('are limited in number', () => {
    const [a, b] = [0, 1].map((value) =>
      result(Array.from({ length: 1_000 }, (_, at) => at * 2 + value)),
    )
    expect(differencesOf(a!, b!)).toHaveLength(MAX_DIFFERENCES)
  })
})

describe('a list of known deviations', () => {
  const file = (text: string) => {
    const path = join(mkdtempSync(join(tmpdir(), 'flashnode-known-')), 'known.json')
    writeFileSync(path, text)
    return path
  }
  const entry = { method: 'eth_get*', path: 'logs[*].data', kind: 'wrong', why: 'because' }
  const [found] = differencesOf(result({ logs: [{ data: 1 }] }), result({ logs: [{ data: 2 }] }))

  test('names methods, paths and kinds', () => {
    const list = readDeviations(file(JSON.stringify([entry])))
    expect(classified(found!, 'eth_getLogs', list)).toMatchObject({ kind: 'known', why: 'because' })
    expect(classified(found!, 'eth_call', list).kind).toBe('wrong')
    expect(classified({ ...found!, path: 'logs[0].topics' }, 'eth_getLogs', list).kind).toBe(
      'wrong',
    )
    expect(classified({ ...found!, kind: 'order' }, 'eth_getLogs', list).kind).toBe('order')
  })

  test.each([
    ['{}', 'expected a JSON list'],
    ['[', 'cannot be read'],
    [JSON.stringify([entry, { ...entry, kind: 'known' }]), 'entry 1: kind must be'],
    [JSON.stringify([{ ...entry, why: undefined }]), 'entry 0: why must be a string'],
  ])('is refused if it is %s', (text, message) => {
    expect(() => readDeviations(file(text))).toThrow(message)
  })
})
