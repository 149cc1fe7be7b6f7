/**
 * The scan before parsing refuses some bodies, but none that a parser accepts within the limits.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ScanLimits, scan } from '../../../rpc/json/scan.ts'

const LIMITS: ScanLimits = {
  depth: 8,
  keys: 16,
  hexKeys: 32,
  values: 1_000,
  items: 50,
  keyCharacters: 20,
  numberCharacters: 12,
  hexCharacters: 100,
  textCharacters: 50,
  idCharacters: 10,
  methodCharacters: 15,
}
const NO_JSON = ''
const wide = (limit: number): ScanLimits =>
  Object.fromEntries(Object.keys(LIMITS).map((name) => [name, limit])) as ScanLimits

describe('the scan of a request body', () => {
  const cases: [name: string, text: string, fault: string | undefined][] = [
    ['nothing', '', NO_JSON],
    ['a bracket without an open one', '}', NO_JSON],
    ['one bracket too many', '{}}', NO_JSON],
    ['a square bracket closed as an object', '[}', NO_JSON],
    ['an object closed as a square bracket', '{]', NO_JSON],
    ['a colon after such a bracket', '}:', NO_JSON],
    ['a key after such a bracket', ']"0x":', NO_JSON],
    ['a colon in a list', '["a":1]', NO_JSON],
    ['a colon without a key', '{:1}', NO_JSON],
    ['two colons', '{"a"::1}', NO_JSON],
    ['a single comma', ',', NO_JSON],
    ['two commas', '[1,,2]', NO_JSON],
    ['two strings', '["a""b"]', NO_JSON],
    ['two numbers', '[1 2]', NO_JSON],
    ['two documents', '{}{}', NO_JSON],
    ['two lists without a comma', '[[][]]', NO_JSON],
    ['an object that is not closed', '{"a":[1', NO_JSON],
    ['a string that is not closed', '["a', 'unterminated string'],
    ['a string that ends in an escape', '["a\\"', 'unterminated string'],
    ['a byte order mark', '\ufeff{}', NO_JSON],
    ['two words without a comma', '[nullnull]', NO_JSON],
    ['an unknown character', '[#]', NO_JSON],
    ['a number that is too long', '[1234567890123]', 'number longer than 12 characters'],
    ['a key that is too long', `{"${'k'.repeat(21)}":1}`, 'key longer than 20 characters'],
    ['hex that is too long', `["0x${'1'.repeat(99)}"]`, 'string longer than 100 characters'],
    ['hex at the limit', `["0x${'1'.repeat(98)}"]`, undefined],
    ['a text that is too long', `["${'t'.repeat(51)}"]`, 'string longer than 50 characters'],
    ['an id that is too long', `{"id":"${'i'.repeat(11)}"}`, 'id longer than 10 characters'],
    ['an id at the limit', `{"id":"${'i'.repeat(10)}"}`, undefined],
    ['a key id inside the params', `{"params":[{"id":"${'i'.repeat(11)}"}]}`, undefined],
    [
      'a method that is too long',
      `{"method":"${'m'.repeat(16)}"}`,
      'method longer than 15 characters',
    ],
    [
      'an id that is too long, in a batch',
      `[{"id":"${'i'.repeat(11)}"}]`,
      'id longer than 10 characters',
    ],
    ['a long key after an id that is a number', `{"id":1,"${'k'.repeat(20)}":1}`, undefined],
    ['a long key after a method that is null', `{"method":null,"${'k'.repeat(20)}":1}`, undefined],
    ['escaped quotes', `["${'\\"'.repeat(25)}"]`, undefined],
  ]
  test.each(cases)('gives the expected fault or none: %s', (_name, text, fault) => {
    expect(scan(text, LIMITS).fault).toBe(fault)
  })
})

test('the scan never rejects valid JSON as malformed', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), fc.constantFrom(0, 1, 2), (text, indent) => {
      const written = indent === 0 ? text : JSON.stringify(JSON.parse(text), undefined, indent)
      expect(scan(written, wide(1_000_000)).fault).toBeUndefined()
    }),
  )
})

test('the scan reads each character only a few times, whatever the input', () => {
  const pieces = [
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '\\',
    '0x',
    'a',
    '1',
    ' ',
    '"0x":',
    '\\"',
    'null',
  ]
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 6 }),
      fc.constantFrom(...pieces, ''),
      (cycle, head) => {
        const text = head + cycle.join('').repeat(2_000)
        let reads = 0
        const limits = { ...wide(100_000), depth: 64, keys: 64, hexKeys: 10_000 }
        // Every step of the scan reads a character by its index.
        const counted = {
          length: text.length,
          charCodeAt(at: number) {
            reads++
            return text.charCodeAt(at)
          },
          indexOf: (what: string, at: number) => text.indexOf(what, at),
          slice: (from: number, to: number) => text.slice(from, to),
          // A regular expression needs this; without it the text would be "[object Object]", and
          // the scan would not end.
          toString: () => text,
        }
        const scanned = scan(counted as unknown as string, limits)
        expect(reads).toBeLessThan(6 * text.length + 20)
        expect(scanned.values).toBeLessThanOrEqual(text.length)
      },
    ),
  )
})
