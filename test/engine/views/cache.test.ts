import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { createViews } from '../../../engine/views/arena.ts'
import { openCache } from '../../../engine/views/cache.ts'
import { type CacheThread, cacheQuery } from '../../fixtures/cache-key.ts'

/** A lookup fails while a writer is at work, which is most of the time here. */
const FINDS = 100_000
const MIN_SEEN = 100
const memoryOf = (cacheEntries: number) =>
  createViews({ bytes: 1 << 20, threads: 1, seed: 1, cacheEntries }).cache

test('a cached value comes from one write, although two threads write', async () => {
  const memory = memoryOf(2)
  const control = new Int32Array(new SharedArrayBuffer(4))
  const writers = [0, 1].map((first) => {
    const workerData: CacheThread = { memory, control, first }
    return new Worker(new URL('../../fixtures/cache-thread.ts', import.meta.url), { workerData })
  })
  await Promise.all(writers.map((writer) => once(writer, 'online')))
  const cache = openCache(memory)
  const query = cacheQuery()
  const out = new Uint32Array(18)
  const seen = new Set<number>()
  const mixed: number[][] = []
  // On a busy machine the writers may have no time meanwhile.
  for (let found = 0; found < FINDS || seen.size < MIN_SEEN; ) {
    if (!cache.find(query)) continue
    found++
    const count = cache.read(out, 0)
    const first = out[0]!
    seen.add(first)
    const others = [cache.block(), cache.height(), cache.unwinds(), ...out.subarray(0, count)]
    if (count !== 18 || others.some((word) => word !== first)) mixed.push([count, ...others])
  }
  Atomics.store(control, 0, 1)
  await Promise.all(writers.map((writer) => once(writer, 'exit')))
  expect(mixed).toEqual([])
})

test('a bucket has entries for two keys, and a third key evicts one', () => {
  const cache = openCache(memoryOf(2))
  const queries = [1, 2, 3].map((first) => {
    const query = cacheQuery()
    query.key[0] = first
    return query
  })
  const at = { id: 1, height: 1, unwinds: 0 }
  for (const query of queries.slice(0, 2)) cache.store(query, Uint32Array.of(query.key[0]!), at)
  expect(queries.map((query) => cache.find(query))).toEqual([true, true, false])
  cache.store(queries[2]!, new Uint32Array(0), at)
  const found = queries.map((query) => cache.find(query))
  expect(found.filter(Boolean).length).toBe(2)
  expect(found[2]).toBe(true)
  expect(cache.read(new Uint32Array(18), 0)).toBe(0)
})

test('a thread finds what another thread has stored', () => {
  const memory = memoryOf(16)
  openCache(memory).store(cacheQuery(), Uint32Array.of(5), { id: 9, height: 8, unwinds: 7 })
  const cache = openCache(memory)
  expect(cache.find(cacheQuery())).toBe(true)
  expect([cache.block(), cache.height(), cache.unwinds()]).toEqual([9, 8, 7])
})

test.each([0, 1, 3, 48])('a cache of %i entries is refused', (entries) => {
  expect(() => memoryOf(entries)).toThrow('expected a power of two from 2')
})
