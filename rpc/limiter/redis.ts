/** Rate-limit points in Redis, shared by several processes. */
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { connectRedis, type LogOnce, logOnce, type RedisClient } from './redis-client.ts'
import type { PointStore, Points } from './shared.ts'

/** Marker in a response: the request came too late, and the process already counted it locally. */
const LATE = 2_000_000_000

/**
 * Script that replaces the library's own. Seconds follow each other from the first request, as in
 * memory (seconds.ts). All points or none are taken, and the following seconds pay debts. Each
 * address has one hash: `e` is the end of its second, `n` the points taken, `o` the points owed.
 * Times use the clock of Redis, so processes need no common clock. ARGV: points, 4 × time +
 * operation + 1, points per second. The second argument replaces the library's duration, which
 * handles 0 differently and multiplies by 1,000 (exact until 2041). The script returns the points
 * taken including these, and 1,024 × end + remaining milliseconds.
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
/**
 * Timeout of a request. After it the local limit decides, and later requests do not wait either.
 */
const RESPONSE_MS = 1_000
/** Maximum number of different rates. Each rate needs a limiter of the library. */
const MAX_RATES = 256

/**
 * Opens the stores.
 * @param url address of Redis
 * @param options `onDisconnected` is called once until Redis responds again; `now` gives
 *   milliseconds since 1970
 */
export function openRedis(
  url: string,
  {
    onDisconnected,
    now,
  }: { readonly onDisconnected: (reason: string) => void; readonly now: () => number },
): RedisStores {
  const once = logOnce(onDisconnected)
  const state: State = { isDisconnected: true, once, failures: 0, clockOffset: undefined }
  const disconnected = (reason: string) => {
    state.isDisconnected = true
    once.disconnected(reason)
  }
  const client = connectRedis(url, { onDisconnected: disconnected, onReady: () => isBack(state) })
  return {
    open: (name) => storeOf({ client, state, disconnected, now, name }),
    get isDisconnected() {
      return state.isDisconnected
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
  /** Opens the points counted under a name. */
  open(name: string): PointStore
  /** Redis was unavailable, and has not responded since. */
  readonly isDisconnected: boolean
  /** Number of requests without a response. */
  readonly failures: number
  close(): void
}

type State = {
  /** Also true before the first response. */
  isDisconnected: boolean
  readonly once: LogOnce
  failures: number
  /** Approximate clock of Redis minus the local clock. undefined: not known yet. */
  clockOffset: number | undefined
}
type Parts = {
  readonly client: RedisClient
  readonly state: State
  readonly disconnected: (reason: string) => void
  readonly now: () => number
  readonly name: string
}

function storeOf({ client, state, disconnected, now, name }: Parts): PointStore {
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
    if (limiters.size >= MAX_RATES) limiters.delete(limiters.keys().next().value!)
    limiters.set(limit, made)
    return made
  }
  /** Time, by the clock of Redis, after which a response is ignored. 0: that clock is unknown. */
  const latest = () =>
    state.clockOffset === undefined ? 0 : Math.ceil(now() + state.clockOffset + RESPONSE_MS)
  const doing = (what: number, at = 0) => ({ customDuration: at * 4 + what + 1 })

  /**
   * Reads the points of a response.
   * @throws {Error} without a response
   */
  async function readPoints(question: Promise<RateLimiterRes>): Promise<Points> {
    let said: RateLimiterRes
    try {
      said = await inTime(question)
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) {
        state.failures++
        disconnected((refusal as Error).message)
        // The connection is destroyed at once to stop further requests. `disconnect` would wait for
        // the other side.
        if (refusal instanceof NoResponse && client.status === 'ready') client.stream.destroy()
        throw refusal
      }
      said = refusal
    }
    const { consumedPoints: used, msBeforeNext: packed } = said
    const second = Math.floor(packed / 1_024)
    const leftMs = packed % 1_024
    isBack(state)
    state.clockOffset = second - leftMs - now()
    if (used === LATE) throw new Error('the request reached Redis too late')
    return { used, second, leftMs }
  }

  return {
    get isUp() {
      return client.status === 'ready'
    },
    take: (key, points, limit) =>
      readPoints(limiterFor(limit).consume(key, points, doing(TAKE, latest()))),
    owe: (key, points, limit) =>
      readPoints(limiterFor(limit).penalty(key, points, doing(OWE, latest()))),
    grant: (key, points, limit) => readPoints(limiterFor(limit).reward(key, points, doing(GRANT))),
    async peek(key, limit) {
      const limiter = limiterFor(limit)
      const [points, owed] = await Promise.all([
        readPoints(limiter.penalty(key, 0, doing(OWE))),
        client.hget(limiter.getKey(key), 'o'),
      ])
      return { ...points, owed: Number(owed ?? 0) }
    },
  }
}

function isBack(state: State): void {
  state.isDisconnected = false
  state.once.back()
}

class NoResponse extends Error {
  override name = 'NoResponse'
}

/**
 * Awaits a response for at most `RESPONSE_MS`.
 * @throws {NoResponse} after the timeout
 */
async function inTime<T>(question: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      // This thread itself may have stood still, so a response that already arrived is read first.
      setImmediate(() => reject(new NoResponse(`no answer within ${RESPONSE_MS} ms`)))
    }, RESPONSE_MS)
  })
  try {
    return await Promise.race([question, late])
  } finally {
    clearTimeout(timer)
  }
}
