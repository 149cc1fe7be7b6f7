/** A cached location belongs to its hash and to its count of unwinds, or is absent. */
import { describe, expect, test } from 'vitest'
import { createPersistedLocations } from '../../../engine/chain/persisted-caches.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'

const hashOf = (...bytes: readonly number[]): Bytes =>
  Uint8Array.from({ length: 32 }, (_, at) => bytes[at] ?? 7)
const A = hashOf(1, 2)
/** The hash has the row of A, and differs in its last byte. */
const SHARES = Uint8Array.from(A, (byte, at) => (at === 31 ? byte ^ 1 : byte))
const B = hashOf(2, 2)
const [FIRST, SECOND] = [
  { blockNumber: 5, index: 1 },
  { blockNumber: 6, index: 0 },
]

describe('the cached locations of persisted transactions', () => {
  test('are found by their hash, and the newest one stays in a row', () => {
    const locations = createPersistedLocations()
    expect(locations.get(A, 0)).toBeUndefined()
    locations.set(A, 0, FIRST)
    locations.set(B, 0, SECOND)
    expect([locations.get(A, 0), locations.get(B, 0), locations.get(SHARES, 0)]).toEqual([
      FIRST,
      SECOND,
      undefined,
    ])
    locations.set(SHARES, 0, SECOND)
    expect([locations.get(A, 0), locations.get(SHARES, 0)]).toEqual([undefined, SECOND])
  })

  test('are forgotten after an unwind, and older views store none', () => {
    const locations = createPersistedLocations()
    locations.set(A, 0, FIRST)
    expect(locations.get(A, 1)).toBeUndefined()
    locations.set(B, 1, SECOND)
    locations.set(A, 0, FIRST)
    expect([
      locations.get(A, 0),
      locations.get(A, 1),
      locations.get(B, 0),
      locations.get(B, 1),
    ]).toEqual([undefined, undefined, undefined, SECOND])
  })

  test('do not depend on the caller’s bytes of the hash', () => {
    const locations = createPersistedLocations()
    const hash = hashOf(9, 9)
    locations.set(hash, 0, FIRST)
    hash.fill(0)
    expect(locations.get(hashOf(9, 9), 0)).toBe(FIRST)
  })
})
