/** Threads share points in memory: the count is exact, whoever takes them. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { clearEnded, createLimiterMemory, Rows } from '../../../rpc/limiter/memory.ts'
import type { LimiterThread, Tally } from '../../fixtures/limiter-thread.ts'

const THREADS = 3
const CHARGES = 60_000
const ENDED = 10

async function runThreads(perSecond: number, seed: number): Promise<Tally> {
  const memory = createLimiterMemory(10)
  const control = new Int32Array(new SharedArrayBuffer(8))
  const all = Array.from({ length: THREADS }, async (_, index) => {
    const workerData: LimiterThread = {
      memory,
      control,
      threads: THREADS,
      perSecond,
      charges: CHARGES,
      thread: 1 + index,
      seed: seed + index,
    }
    const file = new URL('../../fixtures/limiter-thread.ts', import.meta.url)
    const [tally] = await once(new Worker(file, { workerData }), 'message')
    return tally as Tally
  })
  const sum: Tally = {}
  for (const tally of await Promise.all(all))
    for (const [second, { points, isFull }] of Object.entries(tally)) {
      sum[second] ??= { points: 0, isFull: false }
      sum[second]!.points += points
      sum[second]!.isFull ||= isFull
    }
  return sum
}

test('several threads use exactly the points of each second', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 4_000 }), fc.integer(), async (limit, seed) => {
      const seconds = Object.entries(await runThreads(limit, seed))
      expect(seconds.length).toBeGreaterThan(4)
      expect(seconds.filter(([, { points }]) => points > limit)).toEqual([])
      const used = seconds.filter(([key, { isFull }]) => key.startsWith('plain') && isFull)
      expect(used.filter(([, { points }]) => points !== limit)).toEqual([])
    }),
    { numRuns: 4 },
  )
})

test('rows of keys that come and go in any order keep their own points', () => {
  const max = 8
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(11), fc.nat(3)), { maxLength: 300 }), (steps) => {
      const rows = new Rows(createLimiterMemory(max), 1)
      const known = new Map<string, number>()
      for (const [n, what] of steps) {
        const key = `10.0.0.${n}`
        const row = rows.find(key)
        expect(row === undefined ? undefined : rows.used(row)).toBe(known.get(key))
        if (row === undefined && !rows.isFull) {
          rows.setUsed(rows.add(key), n)
          known.set(key, n)
        } else if (row !== undefined && what === 0) {
          rows.remove(row)
          known.delete(key)
        } else if (row !== undefined) {
          rows.toNewest(row)
          known.delete(key)
          known.set(key, n)
        }
        expect(rows.size).toBe(known.size)
        const { oldest } = rows
        expect(oldest && rows.used(oldest)).toBe([...known.values()][0])
      }
    }),
  )
})

test('a thread that ended inside the lock blocks no others', () => {
  const memory = createLimiterMemory(10)
  const limiter = createLimiter({ perSecond: 10, keys: 10, memory, now: () => 5_000 })
  expect(limiter.charge('a', 10)).toMatchObject({ isAllowed: true })
  expect(clearEnded(memory, 99)).toBe(false)
  expect(limiter.charge('a', 1)).toMatchObject({ isAllowed: false })
  new Rows(memory, 99).lock()
  expect(clearEnded(memory, 98)).toBe(false)
  expect(clearEnded(memory, 99)).toBe(true)
  // Points taken in the second stay taken.
  expect(limiter.known).toBe(1)
  expect(limiter.charge('a', 1)).toMatchObject({ isAllowed: false })
  expect(limiter.charge('b', 10)).toMatchObject({ isAllowed: true })
})

test('a thread that waits for the lock of an ended thread continues', async () => {
  const memory = createLimiterMemory(10)
  const control = new Int32Array(new SharedArrayBuffer(8))
  new Rows(memory, 99).lock()
  const workerData: LimiterThread = {
    memory,
    control,
    thread: 1,
    threads: 1,
    perSecond: 10,
    charges: 5,
    seed: 1,
  }
  const file = new URL('../../fixtures/limiter-thread.ts', import.meta.url)
  const worker = new Worker(file, { workerData })
  const reported = once(worker, 'message')
  // The thread has reached the lock or not; either way it must go on.
  await once(worker, 'online')
  expect(clearEnded(memory, 99)).toBe(true)
  expect(Object.keys((await reported)[0] as Tally).length).toBeGreaterThan(0)
})

test('threads that end at any moment block no others', async () => {
  const memory = createLimiterMemory(200)
  const limiter = createLimiter({ perSecond: 10, keys: 200, memory, thread: 1, now: Date.now })
  let thread = 1
  const start = () => {
    const control = new Int32Array(new SharedArrayBuffer(8))
    const options = { memory, control, thread: ++thread, threads: 1, perSecond: 10 }
    const workerData: LimiterThread = { ...options, charges: 0, seed: 1, isEndless: true }
    const file = new URL('../../fixtures/limiter-thread.ts', import.meta.url)
    return { thread, control, worker: new Worker(file, { workerData }) }
  }
  const running = [start(), start()]
  for (let ended = 0; ended < ENDED; ended++) {
    const { thread: name, control, worker } = running.shift()!
    running.push(start())
    // The thread has started, and may be ended at any moment.
    const { async: isLater, value } = Atomics.waitAsync(control, 0, 0)
    if (isLater) await value
    await worker.terminate()
    clearEnded(memory, name)
    expect(limiter.charge('a', 11)).toMatchObject({ isAllowed: false })
  }
  for (const { thread: name, worker } of running) {
    await worker.terminate()
    clearEnded(memory, name)
  }
  expect(limiter.charge('b', 1)).toMatchObject({ isAllowed: true })
})
