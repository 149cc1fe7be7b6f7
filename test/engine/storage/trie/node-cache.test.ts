/**
 * Trie nodes are cached in a ring. A read gives the newest node at a path with its hash, and the
 * last nodes are present.
 */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { NO_BYTES } from '../../../../engine/primitives/bytes.ts'
import { keccak256 } from '../../../../engine/primitives/keccak.ts'
import {
  createNodeCache,
  type NodeName,
  nameOf,
} from '../../../../engine/storage/trie/node-cache.ts'

const take = (length: number) => new Uint8Array(length)
/** Makes a node at a path, and its hash, which is somewhere in other bytes. */
function node(index: number, length: number, version = 0) {
  const raw = new Uint8Array(length).fill(index & 0xff)
  new DataView(raw.buffer).setUint32(0, index)
  new DataView(raw.buffer).setUint32(4, version)
  const source = new Uint8Array(40)
  source.set(keccak256(raw), 5)
  const key = new Uint8Array(32)
  new DataView(key.buffer).setUint32(0, index)
  const plain = { row: raw, patches: (index + version) % 16 }
  return { raw, plain, name: nameOf(NO_BYTES, key, 8), source, at: 5 }
}
const length = fc.integer({ min: 32, max: 6_000 })

test('a cached node is the one that was stored, wherever the ring wraps', () => {
  const step = fc.record({ index: fc.nat(60), length, isPut: fc.boolean() })
  fc.assert(
    fc.property(
      fc.constantFrom(0, 64, 1_024, 5_000, 65_536),
      fc.array(step, { minLength: 1, maxLength: 400 }),
      (size, steps) => {
        const cache = createNodeCache(size)
        const put = new Set<string>()
        for (const { index, length, isPut } of steps) {
          const one = node(index, length)
          const { raw } = one
          if (isPut) {
            cache.put(one, one.plain)
            put.add(`${index} ${length}`)
          }
          const found = cache.copy(one, take)
          if (found !== undefined) {
            expect(put.has(`${index} ${length}`)).toBe(true)
            expect(found).toEqual(one.plain)
          }
          if (isPut)
            expect(found !== undefined).toBe(raw.length + 34 <= size / 2 && raw.length < 4_096)
        }
      },
    ),
  )
})

test('used nodes stay in the cache, and unused ones are evicted', () => {
  const cache = createNodeCache(64 * 1_024)
  const used = Array.from({ length: 20 }, (_, index) => node(index, 500))
  for (const one of used) cache.put(one, one.plain)
  const unused = node(20, 500)
  cache.put(unused, unused.plain)
  for (let index = 100; index < 2_000; index++) {
    const other = node(index, 500)
    cache.put(other, other.plain)
    for (const one of used) expect(cache.copy(one, take)).toEqual(one.plain)
  }
  expect(cache.copy(unused, take)).toBeUndefined()
})

test('the cache has most of the nodes that fit', () => {
  const cache = createNodeCache(1_048_576)
  const nodes: NodeName[] = []
  for (let index = 0; index < 20_000; index++) {
    const one = node(index, 300)
    cache.put(one, one.plain)
    nodes.push(one)
  }
  const last = nodes.slice(-1_500)
  const found = last.filter((one) => cache.copy(one, take) !== undefined)
  expect(found.length).toBeGreaterThan(1_450)
  cache.clear()
  expect(last.some((one) => cache.copy(one, take) !== undefined)).toBe(false)
})

test('a newer version of a node takes its bytes, and other nodes stay', () => {
  const cache = createNodeCache(65_536)
  const others = Array.from({ length: 50 }, (_, index) => node(index, 500))
  for (const one of others) cache.put(one, one.plain)
  let last = node(99, 500)
  cache.put(last, last.plain)
  for (let version = 1; version < 1_000; version++) {
    const before = last
    last = node(99, 500, version)
    cache.put(last, last.plain)
    expect(cache.copy(before, take)).toBeUndefined()
    expect(cache.copy(last, take)).toEqual(last.plain)
  }
  for (const one of others) expect(cache.copy(one, take)).toEqual(one.plain)
})

test('the name of a node depends only on its first nibbles and its trie', () => {
  const key = keccak256(Uint8Array.of(1))
  const names = new Set<number>()
  for (let depth = 0; depth < 16; depth++) {
    const other = key.slice()
    other[depth >> 1]! ^= depth % 2 === 0 ? 0x30 : 0x03
    expect(nameOf(NO_BYTES, other, depth)).toBe(nameOf(NO_BYTES, key, depth))
    for (const each of [key, other]) names.add(nameOf(NO_BYTES, each, depth + 1))
    names.add(nameOf(key, key, depth))
  }
  expect(names.size).toBe(3 * 16)
})
