/**
 * Responses to a copy decode to the encoded rows, and are refused when changed, cut or too long.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ChunkError, decodeChunk, encodeChunk } from '../../../../engine/storage/bootstrap/chunk.ts'
import { COPIED } from '../../../../engine/storage/bootstrap/columns.ts'
import {
  type CopyRequest,
  CopyRequestError,
  readCopyRequest,
  writeCopyRequest,
} from '../../../../engine/storage/bootstrap/copy-request.ts'

const bytes = (max: number) => fc.uint8Array({ maxLength: max }).map((one) => new Uint8Array(one))
const rows = fc.array(fc.record({ key: bytes(70), value: bytes(300) }), { maxLength: 40 })

test('a chunk decodes to the rows that were encoded', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.integer()), rows, (head, entries) => {
      const chunk = decodeChunk(encodeChunk(head, entries), 2 ** 20)
      expect({ ...chunk.head }).toEqual({ ...head })
      expect(chunk.rows).toEqual(entries)
    }),
  )
})

test('a changed or truncated chunk is refused, or has the same rows', () => {
  fc.assert(
    fc.property(
      rows,
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      fc.boolean(),
      (entries, offset, by, isCut) => {
        const full = encodeChunk({ a: 1 }, entries)
        const at = offset % full.length
        const spoiled = isCut ? full.slice(0, at) : full.slice()
        if (!isCut) spoiled[at]! ^= by
        let read: unknown
        try {
          read = decodeChunk(spoiled, 2 ** 20).rows
        } catch (error) {
          expect(error).toBeInstanceOf(ChunkError)
          return
        }
        // Some bits of a zstd frame have no meaning.
        expect(read).toEqual(entries)
      },
    ),
  )
})

test('a chunk that decompresses to more than the limit is refused', () => {
  const chunk = encodeChunk({}, [{ key: new Uint8Array(1), value: new Uint8Array(10_000) }])
  expect(chunk.length).toBeLessThan(200)
  expect(() => decodeChunk(chunk, 9_000)).toThrow(ChunkError)
})

const key = bytes(64).filter((one) => one.length > 0)
const requested: fc.Arbitrary<CopyRequest> = fc.oneof(
  fc.constant({ part: 'about' } as const),
  fc.record({ part: fc.constant('genesis' as const), at: fc.nat() }),
  fc.record({ part: fc.constant('blocks' as const), from: fc.nat() }),
  fc.record({
    part: fc.constant('rows' as const),
    column: fc.constantFrom(...COPIED),
    from: bytes(64),
    to: fc.option(key, { nil: undefined }),
    above: fc.nat(),
    upTo: fc.nat(),
    known: fc.option(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), { nil: undefined }),
  }),
)
test('a copy request decodes to the request that was encoded', () => {
  fc.assert(
    fc.property(requested, (one) => {
      expect(readCopyRequest(writeCopyRequest(one))).toEqual(one)
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
  expect(() => readCopyRequest(new URLSearchParams(query))).toThrow(CopyRequestError)
})
