/** Differences of two answers: where, and of what kind; and a list of those that are right. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  type Answer,
  differencesOf,
  MOST_DIFFERENCES,
} from '../../../workers/commands/compare/differ.ts'
import { classified, readDeviations } from '../../../workers/commands/compare/known.ts'

const result = (value: unknown): Answer => ({ result: value })
const refused = (code: number, message = 'no'): Answer => ({ error: { code, message } })

const CASES: readonly [name: string, a: Answer, b: Answer, expected: readonly string[]][] = [
  ['the same', result({ a: [1, { b: null }] }), result({ a: [1, { b: null }] }), []],
  ['the order of members is none', result({ a: 1, b: 2 }), result({ b: 2, a: 1 }), []],
  ['another value', result({ a: { b: '0x1' } }), result({ a: { b: '0x2' } }), ['wrong a.b']],
  ['case counts', result('0xaB'), result('0xab'), ['wrong ']],
  ['no such member', result({ a: 1, b: 2 }), result({ a: 1 }), ['missing b']],
  ['null and a value', result(null), result({ a: 1 }), ['missing ']],
  ['another order', result({ l: [1, 2, 3] }), result({ l: [3, 1, 2] }), ['order l']],
  ['one element more', result([1, 2]), result([1, 2, 3]), ['missing [2]']],
  ['in an element', result([{ a: 1 }, { a: 2 }]), result([{ a: 1 }, { a: 3 }]), ['wrong [1].a']],
  ['another type', result(['0x1']), result('0x1'), ['wrong ']],
  ['one refuses', result(1), refused(-32_601), ['missing error']],
  ['both refuse alike', refused(-32_000), refused(-32_000), []],
  ['both refuse otherwise', refused(-32_000), refused(-32_601), ['wrong error.code']],
]

describe('differences', () => {
  test.each(CASES)('%s', (_, a, b, expected) => {
    expect(differencesOf(a, b).map(({ kind, path }) => `${kind} ${path}`)).toEqual(expected)
  })

  test('of one answer no more than are of use', () => {
    const [a, b] = [0, 1].map((value) =>
      result(Array.from({ length: 1_000 }, (_, at) => at * 2 + value)),
    )
    expect(differencesOf(a!, b!)).toHaveLength(MOST_DIFFERENCES)
  })
})

describe('a list of known ones', () => {
  const file = (text: string) => {
    const path = join(mkdtempSync(join(tmpdir(), 'flashnode-known-')), 'known.json')
    writeFileSync(path, text)
    return path
  }
  const entry = { method: 'eth_get*', path: 'logs[*].data', kind: 'wrong', why: 'because' }
  const [found] = differencesOf(result({ logs: [{ data: 1 }] }), result({ logs: [{ data: 2 }] }))

  test('names methods, places and kinds', () => {
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
    [JSON.stringify([entry, { ...entry, kind: 'known' }]), 'entry 1: kind has to be'],
    [JSON.stringify([{ ...entry, why: undefined }]), 'entry 0: why has to be a text'],
  ])('%s is none', (text, message) => {
    expect(() => readDeviations(file(text))).toThrow(message)
  })
})
