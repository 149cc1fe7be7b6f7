/** Trie nodes in a ring: what comes out is what was put under its hash, and the last ones are there. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { keccak256 } from '../engine/primitives/keccak.ts'
import { createNodeCache } from '../engine/storage/node-cache.ts'

const take = (length: number) => new Uint8Array(length)
/** A node and its hash, which stands somewhere in other bytes. */
function node(index: number, length: number) {
  const raw = new Uint8Array(length).fill(index & 0xff)
  new DataView(raw.buffer).setUint32(0, index)
  const source = new Uint8Array(40)
  source.set(keccak256(raw), 5)
  return { raw, source, at: 5 }
}
const length = fc.integer({ min: 32, max: 600 })

test('what is found is what was put, wherever the ring wraps', () => {
  const step = fc.record({ index: fc.nat(60), length, isPut: fc.boolean() })
  fc.assert(
    fc.property(
      fc.constantFrom(0, 64, 1_024, 5_000, 65_536),
      fc.array(step, { minLength: 1, maxLength: 400 }),
      (size, steps) => {
        const cache = createNodeCache(size)
        const put = new Set<string>()
        for (const { index, length, isPut } of steps) {
          const { raw, source, at } = node(index, length)
          if (isPut) {
            cache.put(source, at, raw)
            put.add(`${index} ${length}`)
          }
          const found = cache.copy(source, at, take)
          if (found !== undefined) {
            expect(put.has(`${index} ${length}`)).toBe(true)
            expect(found).toEqual(raw)
          }
          if (isPut) expect(found !== undefined).toBe(raw.length + 34 <= size / 2)
        }
      },
    ),
  )
})

test('what is used stays, what is not goes', () => {
  const cache = createNodeCache(64 * 1_024)
  const used = Array.from({ length: 20 }, (_, index) => node(index, 500))
  for (const { source, at, raw } of used) cache.put(source, at, raw)
  const unused = node(20, 500)
  cache.put(unused.source, unused.at, unused.raw)
  for (let index = 100; index < 2_000; index++) {
    const other = node(index, 500)
    cache.put(other.source, other.at, other.raw)
    for (const { source, at, raw } of used) expect(cache.copy(source, at, take)).toEqual(raw)
  }
  expect(cache.copy(unused.source, unused.at, take)).toBeUndefined()
})

test('most of what fits is there', () => {
  const cache = createNodeCache(1_048_576)
  const nodes: { readonly raw: Bytes; readonly source: Bytes; readonly at: number }[] = []
  for (let index = 0; index < 20_000; index++) {
    const one = node(index, 300)
    cache.put(one.source, one.at, one.raw)
    nodes.push(one)
  }
  const last = nodes.slice(-1_500)
  const found = last.filter(({ source, at }) => cache.copy(source, at, take) !== undefined)
  expect(found.length).toBeGreaterThan(1_450)
  cache.clear()
  expect(last.some(({ source, at }) => cache.copy(source, at, take) !== undefined)).toBe(false)
})
