/** The limit over several processes, with a store that answers, fails and comes back when the test says so. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createLimiter } from '../../../rpc/limiter/limiter.ts'
import { createSharedLimiter, type PointStore } from '../../../rpc/limiter/shared.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000, toFake: ['Date', 'setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** One second of all keys; what the real one does is checked by `npm run limit-store`. */
function fakeStore() {
  const points = new Map<string, number>()
  const owed = new Map<string, number>()
  const state = { isUp: true, isFailing: false, second: 5_000, asked: 0 }
  const answer = (key: string, more = 0) => {
    state.asked++
    if (state.isFailing) return Promise.reject(new Error('away'))
    const used = (points.get(key) ?? 0) + more
    return Promise.resolve({ used, second: state.second, leftMs: 400 })
  }
  const store: PointStore = {
    get isUp() {
      return state.isUp
    },
    async take(key, more, limit) {
      const said = await answer(key, more)
      if (said.used <= limit) points.set(key, said.used)
      return said
    },
    async grant(key, more) {
      const said = await answer(key, -more)
      points.set(key, said.used)
      return said
    },
    async owe(key, more) {
      const said = await answer(key)
      owed.set(key, (owed.get(key) ?? 0) + more)
      return said
    },
    look: async (key) => ({ ...(await answer(key)), owed: owed.get(key) ?? 0 }),
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

test('the store decides, and what it refuses says what is left', async () => {
  const { allowed, limiter, points } = newShared()
  points.set('a', 7)
  expect(await allowed(5)).toBe(3)
  expect(await limiter.charge('a', 2)).toEqual({
    ...{ isAllowed: false, limit: 10, used: 10, cost: 2, retryAfterMs: 400 },
  })
  expect(limiter.charged).toBe(3)
  expect(limiter.alone).toBe(0)
})

test('without an answer this process decides, and charges once', async () => {
  const { allowed, limiter, state, local } = newShared()
  expect(await allowed(4)).toBe(4)
  state.isFailing = true
  expect(await allowed(15)).toBe(10)
  expect(local.charged).toBe(10)
  state.isUp = false
  const { asked } = state
  expect(await allowed(3)).toBe(0)
  expect(state.asked).toBe(asked)
  state.isUp = true
  state.isFailing = false
  expect(await allowed(15)).toBe(6)
  expect(limiter.charged).toBe(20)
  expect(limiter.alone).toBe(18)
})

test('debts and stalls reach the store, and stay here while it is away', async () => {
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

test('a stall is made up for to who waited for it, not to who comes long after', async () => {
  const { allowed, limiter, points } = newShared()
  expect(await allowed(10)).toBe(10)
  limiter.stalled(5_000)
  vi.advanceTimersByTime(15_000)
  expect(await allowed(10)).toBe(0)
  // What came of the one before is not given with the next.
  limiter.stalled(500)
  expect(await allowed(10)).toBe(5)
  expect(points.get('a')).toBe(10)
  expect(await allowed(10)).toBe(0)
})

test('whoever is refused as often as it has points is held, by the second of the store', async () => {
  const { allowed, limiter } = newShared()
  expect(await allowed(19)).toBe(10)
  expect(limiter.held('a')).toBeUndefined()
  expect(await allowed(1)).toBe(0)
  expect(limiter.held('a')).toEqual({ limit: 10, used: 10, cost: 1, retryAfterMs: 400 })
  expect(limiter.held('b')).toBeUndefined()
  vi.advanceTimersByTime(400)
  expect(limiter.held('a')).toBeUndefined()
})
