/** The accounts of these journalled transactions must be fetched first. */
import { expect, test } from 'vitest'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { MissingKey } from '../../../engine/state/reader.ts'
import type { Restored } from '../../../engine/txpool/follow.ts'
import { bringBack } from '../../../workers/front/bring-back.ts'

const raw = (fill: number): Bytes => new Uint8Array(3).fill(fill)
const key = (fill: number): MissingKey => ({
  kind: 'account',
  address: new Uint8Array(20).fill(fill),
})
const waits = (restored: number, ...fills: readonly number[]): Restored => ({
  restored,
  waiting: fills.map(raw),
  missing: fills.map(key),
})

/**
 * Opens a pool.
 * @param tries the result of each further try
 */
function open(tries: readonly Restored[], failed?: string) {
  const [requested, tried]: [MissingKey[][], Bytes[][]] = [[], []]
  return {
    requested,
    tried,
    transactions: {
      restore(raws: Iterable<Bytes>) {
        tried.push([...raws])
        return tries[tried.length - 1]!
      },
    },
    lazy: {
      async fetch(keys: readonly MissingKey[]) {
        requested.push([...keys])
        return { failed }
      },
    },
  }
}

test('missing state is fetched and transactions are retried until none waits', async () => {
  const parts = open([waits(1, 2), waits(1)])
  expect(await bringBack(waits(5, 1, 2), parts)).toBe(2)
  expect(parts.requested).toEqual([[key(1), key(2)], [key(2)]])
  expect(parts.tried).toEqual([[raw(1), raw(2)], [raw(2)]])
})

test('transactions wait for the next start when no state can be fetched', async () => {
  const parts = open([], 'no upstream gives state now')
  expect(await bringBack(waits(0, 1), parts)).toBe(0)
  expect([parts.requested.length, parts.tried.length]).toEqual([1, 0])
})

test('restoring ends when more and more state is missing', async () => {
  const parts = open(Array.from({ length: 9 }, () => waits(0, 1)))
  expect(await bringBack(waits(0, 1), parts)).toBe(0)
  expect(parts.tried.length).toBe(8)
})

test('nothing is fetched when no transaction waits', async () => {
  const parts = open([])
  expect(await bringBack(waits(3), parts)).toBe(0)
  expect(parts.requested).toEqual([])
})
