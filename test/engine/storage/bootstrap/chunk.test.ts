/** Answers to a copy: what was put in comes out, and whatever is changed, cut or too long is refused. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type Asked,
  AskedError,
  readAsked,
  writeAsked,
} from '../../../../engine/storage/bootstrap/asked.ts'
import { ChunkError, decodeChunk, encodeChunk } from '../../../../engine/storage/bootstrap/chunk.ts'
import { COPIED } from '../../../../engine/storage/bootstrap/columns.ts'

const bytes = (most: number) => fc.uint8Array({ maxLength: most }).map((one) => new Uint8Array(one))
const rows = fc.array(fc.record({ key: bytes(70), value: bytes(300) }), { maxLength: 40 })

test('any rows', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.integer()), rows, (head, entries) => {
      const chunk = decodeChunk(encodeChunk(head, entries), 2 ** 20)
      expect({ ...chunk.head }).toEqual({ ...head })
      expect(chunk.rows).toEqual(entries)
    }),
  )
})

test('any byte that is another, and any end that is missing', () => {
  fc.assert(
    fc.property(
      rows,
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      fc.boolean(),
      (entries, place, by, isCut) => {
        const whole = encodeChunk({ a: 1 }, entries)
        const at = place % whole.length
        const spoiled = isCut ? whole.slice(0, at) : whole.slice()
        if (!isCut) spoiled[at]! ^= by
        let read: unknown
        try {
          read = decodeChunk(spoiled, 2 ** 20).rows
        } catch (error) {
          expect(error).toBeInstanceOf(ChunkError)
          return
        }
        // A bit of a frame of zstd that means nothing.
        expect(read).toEqual(entries)
      },
    ),
  )
})

test('more than is read', () => {
  const chunk = encodeChunk({}, [{ key: new Uint8Array(1), value: new Uint8Array(10_000) }])
  expect(chunk.length).toBeLessThan(200)
  expect(() => decodeChunk(chunk, 9_000)).toThrow(ChunkError)
})

const key = bytes(64).filter((one) => one.length > 0)
const asked: fc.Arbitrary<Asked> = fc.oneof(
  fc.constant({ part: 'about' } as const),
  fc.record({ part: fc.constant('genesis' as const), at: fc.nat() }),
  fc.record({ part: fc.constant('blocks' as const), from: fc.nat() }),
  fc.record({
    ...{ part: fc.constant('rows' as const), column: fc.constantFrom(...COPIED) },
    ...{ from: bytes(64), to: fc.option(key, { nil: undefined }), above: fc.nat(), upTo: fc.nat() },
    known: fc.option(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), { nil: undefined }),
  }),
)
test('questions come as they were asked', () => {
  fc.assert(
    fc.property(asked, (one) => {
      expect(readAsked(writeAsked(one))).toEqual(one)
    }),
  )
})

test.each([
  'part=all',
  'part=rows&column=meta&from=&above=0&up-to=1',
  'part=rows&column=accounts&from=zz&above=0&up-to=1',
  `part=rows&column=accounts&from=${'00'.repeat(65)}&above=0&up-to=1`,
  'part=rows&column=accounts&from=&above=0',
  'part=rows&column=accounts&from=&above=0&up-to=1&known=12',
  'part=blocks&from=-1',
  'part=blocks&from=99999999999999999',
])('%s is refused', (query) => {
  expect(() => readAsked(new URLSearchParams(query))).toThrow(AskedError)
})
