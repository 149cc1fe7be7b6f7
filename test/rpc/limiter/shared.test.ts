/** Several processes share the limit by a store that responds, fails and recovers on demand. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { createSharedLimiter, type PointStore } from '../../../rpc/limiter/shared.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000, toFake: ['Date', 'setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** The fake store has one second for all keys; `npm run limit-store` checks the real one. */
function fakeStore() {
  const points = new Map<string, number>()
  const owed = new Map<string, number>()
  const state = { isUp: true, isFailing: false, second: 5_000, requested: 0 }
  const respond = (key: string, more = 0) => {
    state.requested++
    if (state.isFailing) return Promise.reject(new Error('away'))
    const used = (points.get(key) ?? 0) + more
    return Promise.resolve({ used, second: state.second, leftMs: 400 })
  }
  const store: PointStore = {
    get isUp() {
      return state.isUp
    },
    async take(key, more, limit) {
      const said = await respond(key, more)
      if (said.used <= limit) points.set(key, said.used)
      return said
    },
    async grant(key, more) {
      const said = await respond(key, -more)
      points.set(key, said.used)
      return said
    },
    async owe(key, more) {
      const said = await respond(key)
      owed.set(key, (owed.get(key) ?? 0) + more)
      return said
    },
    peek: async (key) => ({ ...(await respond(key)), owed: owed.get(key) ?? 0 }),
  }
  return { store, state, points, owed }
}

function newShared() {
  const faked = fakeStore()
  const options = { perSecond: 10, keys: 100, now: () => Date.now() }
  const local = createLimiter(options)
  const limiter = createSharedLimiter({ ...options, local, store: faked.store })
  const allowed = async (count: number, address = 'a') => {
    let sum = 0
    for (let time = 0; time < count; time++) if ((await limiter.charge(address, 1)).isAllowed) sum++
    return sum
  }
  return { ...faked, local, limiter, allowed }
}

test('the store decides, and a refusal has the remaining points', async () => {
  const { allowed, limiter, points } = newShared()
  points.set('a', 7)
  expect(await allowed(5)).toBe(3)
  expect(await limiter.charge('a', 2)).toEqual({
    isAllowed: false,
    limit: 10,
    used: 10,
    cost: 2,
    retryAfterMs: 400,
  })
  expect(limiter.charged).toBe(3)
  expect(limiter.alone).toBe(0)
})

test('without a response of the store this process decides, and charges once', async () => {
  const { allowed, limiter, state, local } = newShared()
  expect(await allowed(4)).toBe(4)
  state.isFailing = true
  expect(await allowed(15)).toBe(10)
  expect(local.charged).toBe(10)
  state.isUp = false
  const { requested } = state
  expect(await allowed(3)).toBe(0)
  expect(state.requested).toBe(requested)
  state.isUp = true
  state.isFailing = false
  expect(await allowed(15)).toBe(6)
  expect(limiter.charged).toBe(20)
  expect(limiter.alone).toBe(18)
})

test('debt and stalls reach the store, and stay local while it is down', async () => {
  const { allowed, limiter, state, points, owed } = newShared()
  expect(await allowed(10)).toBe(10)
  limiter.owe('a', 3)
  expect(owed.get('a') ?? (await Promise.resolve().then(() => owed.get('a')))).toBe(3)
  limiter.stalled(500)
  expect(await allowed(10)).toBe(5)
  expect(points.get('a')).toBe(10)
  state.isUp = false
  limiter.owe('b', 4)
  expect(await limiter.standing('b')).toMatchObject({ owed: 4 })
  state.isUp = true
  expect(await limiter.standing('a')).toEqual({ limit: 10, used: 10, owed: 3, resetMs: 400 })
})

test('a stall is credited only to addresses that return soon after it', async () => {
  const { allowed, limiter, points } = newShared()
  expect(await allowed(10)).toBe(10)
  limiter.stalled(5_000)
  vi.advanceTimersByTime(15_000)
  expect(await allowed(10)).toBe(0)
  // Remaining credit of an earlier stall is not added to the next one.
  limiter.stalled(500)
  expect(await allowed(10)).toBe(5)
  expect(points.get('a')).toBe(10)
  expect(await allowed(10)).toBe(0)
})

test('an address is throttled by the second of the store', async () => {
  const { allowed, limiter } = newShared()
  expect(await allowed(19)).toBe(10)
  expect(limiter.throttled('a')).toBeUndefined()
  expect(await allowed(1)).toBe(0)
  expect(limiter.throttled('a')).toEqual({ limit: 10, used: 10, cost: 1, retryAfterMs: 400 })
  expect(limiter.throttled('b')).toBeUndefined()
  vi.advanceTimersByTime(400)
  expect(limiter.throttled('a')).toBeUndefined()
})
