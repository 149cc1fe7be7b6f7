/** A long text is known from its second time on, and one that differs in a character is not. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLongTexts } from '../../../rpc/dispatch/long-texts.ts'

const MOST = 300
const text = fc.string({ minLength: 1, maxLength: MOST, unit: 'binary-ascii' })

test('the same text was seen, one with another character or another length was not', () => {
  fc.assert(
    fc.property(text, fc.nat(), fc.integer({ min: 1, max: 127 }), (first, place, change) => {
      const at = place % first.length
      const other = String.fromCharCode(first.charCodeAt(at) ^ change)
      const texts = createLongTexts(MOST + 1)
      expect([texts.wasSeen(first), texts.wasSeen(first)]).toEqual([false, true])
      expect(texts.wasSeen(`${first.slice(0, at)}${other}${first.slice(at + 1)}`)).toBe(false)
      expect(texts.wasSeen(`${first} `)).toBe(false)
    }),
    { seed: 1, numRuns: 2_000 },
  )
})
