/**
 * Front threads end while they have a lock. The main thread responds meanwhile and frees the lock,
 * the others go on, and every count is exact.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { clearSeen, createSeenMemory } from '../../../rpc/events/shared-seen.ts'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { clearEnded, createLimiterMemory, Rows } from '../../../rpc/limiter/memory.ts'
import {
  createConcurrencyMemory,
  openSharedConcurrencyLimits,
  releaseEndedConcurrency,
} from '../../../rpc/limiter/shared-concurrency-limits.ts'
import { threadOf } from '../../../rpc/limiter/shared-rows.ts'
import { createWaitlessLimiter } from '../../../rpc/limiter/waitless.ts'
import {
  INSIDE,
  LOCK_LIMITS,
  LOCK_NOW,
  LOCK_RATE,
  LOCKS,
  type LockThread,
  OVER,
  STOPS_INSIDE,
  type Worked,
} from '../../fixtures/lock-thread.ts'
import { editedEnv, editedExecArgv } from '../../kit/edits.ts'
import { propertyRuns } from '../../kit/property-runs.ts'

const ENDS = {
  limiter: propertyRuns(200),
  concurrencyLimits: propertyRuns(100),
  seen: propertyRuns(100),
} as const
/**
 * These front threads work to the end; the others are one that ends inside the lock, and one that
 * ends waiting for it.
 */
const WORKERS = [1, 2] as const
const [ENDED, WAITING] = [3, 4] as const
const ADDRESS = '10.0.0.1'

const newControl = () => new Int32Array(new SharedArrayBuffer(12))
const file = new URL('../../fixtures/lock-thread.ts', import.meta.url)

async function reached(control: Int32Array<SharedArrayBuffer>): Promise<void> {
  const { async: isLater, value } = Atomics.waitAsync(control, INSIDE, 0)
  if (isLater) await value
}

test.each(LOCKS)('threads that end inside the lock of the %s leave exact counts', async (lock) => {
  const memory = {
    limiter: createLimiterMemory(10),
    concurrencyLimits: createConcurrencyMemory({ rows: 10, frontThreads: 5 }),
    seen: createSeenMemory({ shownClients: 10, shownAddresses: 4 }),
  }
  const start = (front: number, stops: boolean, control = newControl()) => {
    const workerData: LockThread = { ...memory, lock, front, control, stops }
    const edits = stops ? { execArgv: [...editedExecArgv], env: editedEnv(STOPS_INSIDE) } : {}
    return { front, control, worker: new Worker(file, { workerData, ...edits }) }
  }
  const free = (front: number): boolean => {
    releaseEndedConcurrency(memory.concurrencyLimits, front)
    const cleared = [clearEnded(memory.limiter, threadOf(front))]
    cleared.push(clearSeen(memory.seen, threadOf(front)))
    return cleared.includes(true)
  }
  const options = { perSecond: LOCK_RATE, keys: 10, memory: memory.limiter, now: () => LOCK_NOW }
  const main = createWaitlessLimiter({ ...options, thread: threadOf(0) })
  const working = WORKERS.map((front) => start(front, false))
  await Promise.all(working.map(({ control }) => reached(control)))
  let points = 0
  for (let end = 0; end < ENDS[lock]; end++) {
    const inside = start(ENDED, true)
    await reached(inside.control)
    const also = end % 10 === 0 ? start(WAITING, false) : undefined
    if (also !== undefined) await once(also.worker, 'online')
    const charge = main.charge(ADDRESS, 1)
    // The loop turns while another thread has the lock.
    await new Promise((resolve) => setImmediate(resolve))
    expect(charge instanceof Promise).toBe(lock === 'limiter')
    const ended = [inside, ...(also === undefined ? [] : [also])]
    await Promise.all(ended.map(({ worker }) => worker.terminate()))
    const inOrder = end % 20 === 0 ? ended.toReversed() : ended
    const freed = inOrder.map(({ front }) => free(front))
    expect(freed.includes(true)).toBe(lock !== 'concurrencyLimits')
    expect(await charge).toMatchObject({ isAllowed: true })
    // The thread that ended inside had taken its point; the one that ended waiting had taken none.
    points += lock === 'limiter' ? 2 : 1
  }
  const worked = working.map(async ({ control, worker }) => {
    const [said] = await Promise.all([
      once(worker, 'message') as Promise<[Worked]>,
      Atomics.store(control, OVER, 1),
    ])
    return said[0]
  })
  const sum = { points, permits: 0 }
  for (const { points, permits } of await Promise.all(worked)) {
    sum.points += points
    sum.permits += permits
  }
  expect(
    openSharedConcurrencyLimits(memory.concurrencyLimits, 0)('filters', LOCK_LIMITS).total,
  ).toBe(sum.permits)
  const rows = new Rows(memory.limiter, 9)
  expect(rows.used(rows.find(ADDRESS)!)).toBe(sum.points)
  expect(main.charge(ADDRESS, 1)).toMatchObject({ isAllowed: true })
})

test('a limiter that must not block runs its charges in order once the lock is free', async () => {
  const memory = createLimiterMemory(10)
  const options = { perSecond: 100, keys: 10, memory, now: () => LOCK_NOW }
  const main = createWaitlessLimiter({ ...options, thread: 1 })
  const live = new Rows(memory, 99)
  live.lock()
  const charges = [main.charge('a', 100), main.charge('a', 1)]
  main.owe('a', 7)
  const standing = main.standing('a')
  expect(main.throttled('a')).toBeUndefined()
  let hasResponse = false
  for (const charge of charges) void Promise.resolve(charge).then(() => (hasResponse = true))
  // After many tries the owner still counts as alive, however long it gets no core.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 1))
  expect(hasResponse).toBe(false)
  expect(live.tryLock()).toBe(false)
  live.unlock()
  expect(await Promise.all(charges)).toMatchObject([{ isAllowed: true }, { isAllowed: false }])
  expect(await standing).toMatchObject({ limit: 100, used: 100, owed: 7 })
  expect(createLimiter({ ...options, thread: 2 }).charge('b', 100)).toMatchObject({
    isAllowed: true,
  })
})

test('charges above the maximum that may wait for the lock are refused', async () => {
  const memory = createLimiterMemory(10)
  const options = { perSecond: 20_000, keys: 10, memory, now: () => LOCK_NOW }
  const main = createWaitlessLimiter({ ...options, thread: 1 })
  const live = new Rows(memory, 99)
  live.lock()
  const charges = Array.from({ length: 10_000 }, () => main.charge('a', 1))
  expect(main.charge('a', 1)).toMatchObject({ isAllowed: false, retryAfterMs: 1_000 })
  live.unlock()
  const said = await Promise.all(charges)
  expect(said.every(({ isAllowed }) => isAllowed)).toBe(true)
  const row = live.find('a')!
  expect(live.used(row)).toBe(10_000)
})
