/** The points of addresses in Redis, where several processes take them from one second. */
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { connectRedis, type RedisClient, type SayOnce, sayOnce } from './redis-client.ts'
import type { PointStore, Points } from './shared.ts'

/** What is said of points that were asked for so long ago that their request has been counted elsewhere. */
const LATE = 2_000_000_000

/**
 * The library's script in place of its own: seconds follow each other from the first request as those in memory do (seconds.ts), all points
 * are taken or none, and debts are paid by the seconds that follow. One hash for each address: `e` when its second ends, `n` points taken of it, `o` points owed; by the clock of Redis, so that processes need not agree on one.
 * ARGV: points, 4 × time + what to do + 1, points of a second. The second stands where the library has a duration: it has another way for 0, and
 * multiplies by 1,000, which is exact until 2041. Gives the points taken with these, and 1,024 × end + what is left of the second.
 */
const SCRIPT = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local points, limit = tonumber(ARGV[1]), tonumber(ARGV[3])
local asked = ARGV[2] - 1
local at, what = math.floor(asked / 4), asked % 4
local row = redis.call('hmget', KEYS[1], 'e', 'n', 'o')
local e, n, o = tonumber(row[1]), tonumber(row[2] or 0), tonumber(row[3] or 0)
if not e or e > now + 1000 then
  e, n, o = now + 1000, 0, 0
elseif e <= now then
  local missed = math.floor((now - e) / 1000)
  o = math.max(0, o - missed * limit)
  n = math.min(o, limit)
  o = o - n
  e = e + (missed + 1) * 1000
end
local used = n + points
if what < 2 and at > 0 and now > at then
  used = ${LATE}
elseif what == 0 then
  if used <= limit then n = used end
elseif what == 1 then
  o = math.min(o + points, 10 * limit)
  used = n
else
  n = used
end
redis.call('hset', KEYS[1], 'e', e, 'n', n, 'o', o)
redis.call('pexpire', KEYS[1], 11000)
return {used, e * 1024 + e - now}
`
const [TAKE, OWE, GRANT] = [0, 1, 2] as const
/** For an answer. Nobody waits for longer before the limits of this process decide, and who waited is not kept waiting again. */
const ANSWER_MS = 1_000
/** Different rates at a time: each is a limiter of the library. */
const MOST_RATES = 256

/** @param onAway why it cannot be asked, once until it answers again @param now milliseconds since 1970 */
export function openRedis(
  url: string,
  { onAway, now }: { readonly onAway: (reason: string) => void; readonly now: () => number },
): RedisStores {
  const once = sayOnce(onAway)
  const state: State = { isAway: true, once, failures: 0, clockOffset: undefined }
  const away = (reason: string) => {
    state.isAway = true
    once.away(reason)
  }
  const client = connectRedis(url, { onAway: away, onReady: () => isBack(state) })
  return {
    open: (name) => storeOf({ client, state, away, now, name }),
    get isAway() {
      return state.isAway
    },
    get failures() {
      return state.failures
    },
    close() {
      once.end()
      client.disconnect()
    },
  }
}

export interface RedisStores {
  /** What is counted under this name. */
  open(name: string): PointStore
  /** It could not be asked, and has not answered since. */
  readonly isAway: boolean
  /** Questions without an answer. */
  readonly failures: number
  close(): void
}

type State = {
  /** Also before it has answered for the first time. */
  isAway: boolean
  readonly once: SayOnce
  failures: number
  /** From the clock here to that of Redis, about; undefined: not known yet. */
  clockOffset: number | undefined
}
type Parts = {
  readonly client: RedisClient
  readonly state: State
  readonly away: (reason: string) => void
  readonly now: () => number
  readonly name: string
}

function storeOf({ client, state, away, now, name }: Parts): PointStore {
  const limiters = new Map<number, RateLimiterRedis>()
  function limiterFor(limit: number): RateLimiterRedis {
    const known = limiters.get(limit)
    if (known !== undefined) return known
    const made = new RateLimiterRedis({
      storeClient: client,
      keyPrefix: `flashnode:${name}`,
      points: limit,
      duration: 1,
      customIncrTtlLuaScript: SCRIPT,
      rejectIfRedisNotReady: true,
    })
    if (limiters.size >= MOST_RATES) limiters.delete(limiters.keys().next().value!)
    limiters.set(limit, made)
    return made
  }
  /** By the clock of Redis, as far as that is known: later than that nobody waits for the answer any more. */
  const latest = () =>
    state.clockOffset === undefined ? 0 : Math.ceil(now() + state.clockOffset + ANSWER_MS)
  const doing = (what: number, at = 0) => ({ customDuration: at * 4 + what + 1 })

  /** @throws {Error} there is no answer */
  async function ask(question: Promise<RateLimiterRes>): Promise<Points> {
    let said: RateLimiterRes
    try {
      said = await inTime(question)
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) {
        state.failures++
        away((refusal as Error).message)
        // Closes the connection now, so that nobody asks on it: `disconnect` would wait for the other side.
        if (refusal instanceof NoAnswer && client.status === 'ready') client.stream.destroy()
        throw refusal
      }
      said = refusal
    }
    const { consumedPoints: used, msBeforeNext: packed } = said
    const second = Math.floor(packed / 1_024)
    const leftMs = packed % 1_024
    isBack(state)
    state.clockOffset = second - leftMs - now()
    if (used === LATE) throw new Error('the question came too late')
    return { used, second, leftMs }
  }

  return {
    get isUp() {
      return client.status === 'ready'
    },
    take: (key, points, limit) =>
      ask(limiterFor(limit).consume(key, points, doing(TAKE, latest()))),
    owe: (key, points, limit) => ask(limiterFor(limit).penalty(key, points, doing(OWE, latest()))),
    grant: (key, points, limit) => ask(limiterFor(limit).reward(key, points, doing(GRANT))),
    async look(key, limit) {
      const limiter = limiterFor(limit)
      const [points, owed] = await Promise.all([
        ask(limiter.penalty(key, 0, doing(OWE))),
        client.hget(limiter.getKey(key), 'o'),
      ])
      return { ...points, owed: Number(owed ?? 0) }
    },
  }
}

function isBack(state: State): void {
  state.isAway = false
  state.once.back()
}

class NoAnswer extends Error {
  override name = 'NoAnswer'
}

/** @throws {NoAnswer} */
async function inTime<T>(question: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      // This thread may have stood still itself, and the answer is here: it is read before.
      setImmediate(() => reject(new NoAnswer(`no answer within ${ANSWER_MS} ms`)))
    }, ANSWER_MS)
  })
  try {
    return await Promise.race([question, late])
  } finally {
    clearTimeout(timer)
  }
}
