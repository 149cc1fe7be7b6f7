/** Journalled transactions whose accounts have to be fetched first. */
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
  ...{ restored, waiting: fills.map(raw), missing: fills.map(key) },
})

/** @param tries what each further try leaves */
function open(tries: readonly Restored[], failed?: string) {
  const [asked, tried]: [MissingKey[][], Bytes[][]] = [[], []]
  return {
    asked,
    tried,
    transactions: {
      restore(raws: Iterable<Bytes>) {
        tried.push([...raws])
        return tries[tried.length - 1]!
      },
    },
    lazy: {
      async fetch(keys: readonly MissingKey[]) {
        asked.push([...keys])
        return { failed }
      },
    },
  }
}

test('what is missing is fetched, and what waits is tried again, until nothing waits', async () => {
  const parts = open([waits(1, 2), waits(1)])
  expect(await bringBack(waits(5, 1, 2), parts)).toBe(2)
  expect(parts.asked).toEqual([[key(1), key(2)], [key(2)]])
  expect(parts.tried).toEqual([[raw(1), raw(2)], [raw(2)]])
})

test('where nothing can be fetched they wait for the next start', async () => {
  const parts = open([], 'no upstream gives state now')
  expect(await bringBack(waits(0, 1), parts)).toBe(0)
  expect([parts.asked.length, parts.tried.length]).toEqual([1, 0])
})

test('where more and more is missing it ends', async () => {
  const parts = open(Array.from({ length: 9 }, () => waits(0, 1)))
  expect(await bringBack(waits(0, 1), parts)).toBe(0)
  expect(parts.tried.length).toBe(8)
})

test('where nothing waits nothing is asked', async () => {
  const parts = open([])
  expect(await bringBack(waits(3), parts)).toBe(0)
  expect(parts.asked).toEqual([])
})
