/** The look at a body before it is parsed: what it refuses, and that it refuses nothing that a parser takes. */
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

describe('refused where it stands', () => {
  const cases: [name: string, text: string, fault: string | undefined][] = [
    ['nothing', '', NO_JSON],
    ['a bracket that closes nothing', '}', NO_JSON],
    ['closing more than was opened', '{}}', NO_JSON],
    ['the wrong bracket', '[}', NO_JSON],
    ['the other wrong bracket', '{]', NO_JSON],
    ['a colon behind such brackets', '}:', NO_JSON],
    ['a key behind such brackets', ']"0x":', NO_JSON],
    ['a colon in a list', '["a":1]', NO_JSON],
    ['a colon on its own', '{:1}', NO_JSON],
    ['two colons', '{"a"::1}', NO_JSON],
    ['a comma on its own', ',', NO_JSON],
    ['two commas', '[1,,2]', NO_JSON],
    ['two strings', '["a""b"]', NO_JSON],
    ['two numbers', '[1 2]', NO_JSON],
    ['two bodies', '{}{}', NO_JSON],
    ['two lists', '[[][]]', NO_JSON],
    ['never closed', '{"a":[1', NO_JSON],
    ['a string never closed', '["a', 'unterminated string'],
    ['a string that ends in its escape', '["a\\"', 'unterminated string'],
    ['a byte order mark', '\ufeff{}', NO_JSON],
    ['a long word', '[nullnull]', NO_JSON],
    ['no word', '[#]', NO_JSON],
    ['a number too long', '[1234567890123]', 'number longer than 12 characters'],
    ['a key too long', `{"${'k'.repeat(21)}":1}`, 'key longer than 20 characters'],
    ['hex too long', `["0x${'1'.repeat(99)}"]`, 'string longer than 100 characters'],
    ['hex, long', `["0x${'1'.repeat(98)}"]`, undefined],
    ['text too long', `["${'t'.repeat(51)}"]`, 'string longer than 50 characters'],
    ['an id too long', `{"id":"${'i'.repeat(11)}"}`, 'id longer than 10 characters'],
    ['an id, long', `{"id":"${'i'.repeat(10)}"}`, undefined],
    ['no id', `{"params":[{"id":"${'i'.repeat(11)}"}]}`, undefined],
    ['a name too long', `{"method":"${'m'.repeat(16)}"}`, 'method longer than 15 characters'],
    ['an id in a batch', `[{"id":"${'i'.repeat(11)}"}]`, 'id longer than 10 characters'],
    ['escaped quotes', `["${'\\"'.repeat(25)}"]`, undefined],
  ]
  test.each(cases)('%s', (_name, text, fault) => {
    expect(scan(text, LIMITS).fault).toBe(fault)
  })
})

test('what a parser takes is never said to be no JSON', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), fc.constantFrom(0, 1, 2), (text, indent) => {
      const written = indent === 0 ? text : JSON.stringify(JSON.parse(text), undefined, indent)
      expect(scan(written, wide(1_000_000)).fault).toBeUndefined()
    }),
  )
})

test('whatever is written, it looks at each character a few times at most and keeps nothing of it', () => {
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
        // Every step of the scan reads a character by its place.
        const counted = {
          length: text.length,
          charCodeAt(at: number) {
            reads++
            return text.charCodeAt(at)
          },
          indexOf: (what: string, at: number) => text.indexOf(what, at),
          slice: (from: number, to: number) => text.slice(from, to),
          // For what looks at it by an expression: without it that would look at "[object Object]", and the scan would not end.
          toString: () => text,
        }
        const looked = scan(counted as unknown as string, limits)
        expect(reads).toBeLessThan(6 * text.length + 20)
        expect(looked.values).toBeLessThanOrEqual(text.length)
      },
    ),
  )
})
