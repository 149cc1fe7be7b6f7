/** A long text is known from its second time on; a text with another character is not. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLongTexts } from '../../../rpc/dispatch/long-texts.ts'

const MAX = 300
const text = fc.string({ minLength: 1, maxLength: MAX, unit: 'binary-ascii' })

test('a text is known from its second use on, and any other text is not', () => {
  fc.assert(
    fc.property(text, fc.nat(), fc.integer({ min: 1, max: 127 }), (first, offset, change) => {
      const at = offset % first.length
      const other = String.fromCharCode(first.charCodeAt(at) ^ change)
      const texts = createLongTexts(MAX + 1)
      expect([texts.wasSeen(first), texts.wasSeen(first)]).toEqual([false, true])
      expect(texts.wasSeen(`${first.slice(0, at)}${other}${first.slice(at + 1)}`)).toBe(false)
      expect(texts.wasSeen(`${first} `)).toBe(false)
    }),
    { seed: 1, numRuns: 2_000 },
  )
})
