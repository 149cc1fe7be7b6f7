/** Front threads that end with a lock: the main thread answers meanwhile and frees it, the others go on, and every count is exact. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { clearShown, createShownMemory } from '../../../rpc/events/shared-shown.ts'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { clearEnded, createLimiterMemory, Rows } from '../../../rpc/limiter/memory.ts'
import { createWaitlessLimiter } from '../../../rpc/limiter/waitless.ts'
import { capsOfEnded, createCapsMemory, openSharedCaps } from '../../../rpc/seam/shared-caps.ts'
import { threadOf } from '../../../rpc/seam/shared-rows.ts'
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

const ENDS = { limiter: 200, caps: 100, shown: 100 } as const
/** Fronts: those that work to the end, the one that ends inside, and one that ends while it waits for the lock. */
const WORKERS = [1, 2] as const
const [ENDED, WAITING] = [3, 4] as const
const ADDRESS = '10.0.0.1'

const newControl = () => new Int32Array(new SharedArrayBuffer(12))
const file = new URL('../../fixtures/lock-thread.ts', import.meta.url)

async function reached(control: Int32Array<SharedArrayBuffer>): Promise<void> {
  const { async: isLater, value } = Atomics.waitAsync(control, INSIDE, 0)
  if (isLater) await value
}

test.each(LOCKS)('threads that end inside the lock of the %s', async (lock) => {
  const memory = {
    limiter: createLimiterMemory(10),
    caps: createCapsMemory({ rows: 10, cells: 5 }),
    shown: createShownMemory({ shownClients: 10, shownAddresses: 4 }),
  }
  const start = (front: number, stops: boolean, control = newControl()) => {
    const workerData: LockThread = { ...memory, lock, front, control, stops }
    const edits = stops ? { execArgv: [...editedExecArgv], env: editedEnv(STOPS_INSIDE) } : {}
    return { front, control, worker: new Worker(file, { workerData, ...edits }) }
  }
  const free = (front: number): boolean => {
    capsOfEnded(memory.caps, front)
    const cleared = [clearEnded(memory.limiter, threadOf(front))]
    cleared.push(clearShown(memory.shown, threadOf(front)))
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
    expect(freed.includes(true)).toBe(lock !== 'caps')
    expect(await charge).toMatchObject({ isAllowed: true })
    // The one that ended inside had taken its point, and the one that ended waiting had none.
    points += lock === 'limiter' ? 2 : 1
  }
  const worked = working.map(async ({ control, worker }) => {
    const [said] = await Promise.all([
      once(worker, 'message') as Promise<[Worked]>,
      Atomics.store(control, OVER, 1),
    ])
    return said[0]
  })
  const sum = { points, places: 0 }
  for (const { points, places } of await Promise.all(worked)) {
    sum.points += points
    sum.places += places
  }
  expect(openSharedCaps(memory.caps, 0)('filters', LOCK_LIMITS).total).toBe(sum.places)
  const rows = new Rows(memory.limiter, 9)
  expect(rows.used(rows.find(ADDRESS)!)).toBe(sum.points)
  expect(main.charge(ADDRESS, 1)).toMatchObject({ isAllowed: true })
})

test('a thread that must not wait does all in its order once the lock is free, and takes it from nobody', async () => {
  const memory = createLimiterMemory(10)
  const options = { perSecond: 100, keys: 10, memory, now: () => LOCK_NOW }
  const main = createWaitlessLimiter({ ...options, thread: 1 })
  const live = new Rows(memory, 99)
  live.lock()
  const charges = [main.charge('a', 100), main.charge('a', 1)]
  main.owe('a', 7)
  const standing = main.standing('a')
  expect(main.held('a')).toBeUndefined()
  let isAnswered = false
  for (const charge of charges) void Promise.resolve(charge).then(() => (isAnswered = true))
  // Many tries: the owner is alive, however long its core is taken from it.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 1))
  expect(isAnswered).toBe(false)
  expect(live.tryLock()).toBe(false)
  live.unlock()
  expect(await Promise.all(charges)).toMatchObject([{ isAllowed: true }, { isAllowed: false }])
  expect(await standing).toMatchObject({ limit: 100, used: 100, owed: 7 })
  expect(createLimiter({ ...options, thread: 2 }).charge('b', 100)).toMatchObject({
    isAllowed: true,
  })
})

test('so many wait for the lock, and what comes then is refused', async () => {
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
