/** A place is that of the hash and of the count of unfolds it was kept for, or none. */
import { describe, expect, test } from 'vitest'
import { keepFoldedPlaces } from '../../../engine/chain/folded-places.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'

const hashOf = (...bytes: readonly number[]): Bytes =>
  Uint8Array.from({ length: 32 }, (_, at) => bytes[at] ?? 7)
const A = hashOf(1, 2)
/** Has the row of A, and differs in its last byte. */
const SHARES = Uint8Array.from(A, (byte, at) => (at === 31 ? byte ^ 1 : byte))
const B = hashOf(2, 2)
const [FIRST, SECOND] = [
  { blockNumber: 5, index: 1 },
  { blockNumber: 6, index: 0 },
]

describe('folded places', () => {
  test('each hash has its own, and the newest of a row stays', () => {
    const places = keepFoldedPlaces()
    expect(places.get(A, 0)).toBeUndefined()
    places.keep(A, 0, FIRST)
    places.keep(B, 0, SECOND)
    expect([places.get(A, 0), places.get(B, 0), places.get(SHARES, 0)]).toEqual([
      FIRST,
      SECOND,
      undefined,
    ])
    places.keep(SHARES, 0, SECOND)
    expect([places.get(A, 0), places.get(SHARES, 0)]).toEqual([undefined, SECOND])
  })

  test('an unfold forgets all, and a view from before it neither finds nor keeps', () => {
    const places = keepFoldedPlaces()
    places.keep(A, 0, FIRST)
    expect(places.get(A, 1)).toBeUndefined()
    places.keep(B, 1, SECOND)
    places.keep(A, 0, FIRST)
    expect([places.get(A, 0), places.get(A, 1), places.get(B, 0), places.get(B, 1)]).toEqual([
      undefined,
      undefined,
      undefined,
      SECOND,
    ])
  })

  test('the hash may be changed afterwards', () => {
    const places = keepFoldedPlaces()
    const hash = hashOf(9, 9)
    places.keep(hash, 0, FIRST)
    hash.fill(0)
    expect(places.get(hashOf(9, 9), 0)).toBe(FIRST)
  })
})
