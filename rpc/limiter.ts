/** The rate limit: one bucket per client address for HTTP and WebSocket on both endpoints. */
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { limiterKey } from './address.ts'

export type Charge =
  | { readonly isAllowed: true }
  | {
      readonly isAllowed: false
      /** Points per second. */
      readonly limit: number
      /** Points already used in this second, this request not counted. */
      readonly used: number
      readonly cost: number
      readonly retryAfterMs: number
    }

export interface Limiter {
  /** Takes all points or none. The second is counted from the first request of an address. Never rejects. */
  charge(address: string, points: number): Promise<Charge>
}

export type LimiterOptions = {
  /** Points per second and address; undefined: no limit. */
  readonly perSecond: number | undefined
  /** Addresses known at a time; the ones beyond share one bucket. */
  readonly keys: number
}

const WINDOW_MS = 1_000
const OVERFLOW_KEY = 'overflow'
const ALLOWED: Promise<Charge> = Promise.resolve({ isAllowed: true })

export function createLimiter(options: LimiterOptions): Limiter {
  const { perSecond } = options
  if (perSecond === undefined) return { charge: () => ALLOWED }
  const bucket = new RateLimiterMemory({
    keyPrefix: '',
    points: perSecond,
    duration: WINDOW_MS / 1_000,
  })
  const keyOf = createKeys(options.keys)
  let waiting = 0
  let tail: Promise<unknown> = Promise.resolve()

  async function take(key: string, points: number): Promise<Charge> {
    try {
      await bucket.consume(key, points)
      return { isAllowed: true }
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal
      // The bucket counts refused points too: given back, so that smaller requests still fit in this second.
      await bucket.reward(key, points)
      return {
        isAllowed: false,
        limit: perSecond ?? 0,
        used: refusal.consumedPoints - points,
        cost: points,
        retryAfterMs: Math.max(1, refusal.msBeforeNext),
      }
    }
  }

  return {
    charge(address, points) {
      const key = keyOf(limiterKey(address))
      // Between a refusal and its points given back, another request would be refused wrongly: it waits for its turn.
      if (waiting === 0 && points === 1) return take(key, points)
      waiting++
      const turn = tail.then(() => take(key, points)).finally(() => waiting--)
      tail = turn
      return turn
    },
  }
}

/** Known keys with the end of their second, oldest first: the bucket itself does not bound them. */
function createKeys(limit: number): (key: string) => string {
  const known = new Map<string, number>()
  return (key) => {
    const now = Date.now()
    const end = known.get(key)
    if (end !== undefined && end > now) return key
    known.delete(key)
    for (const [oldest, itsEnd] of known) {
      if (itsEnd > now && itsEnd <= now + WINDOW_MS) break
      known.delete(oldest)
    }
    if (known.size >= limit) return OVERFLOW_KEY
    known.set(key, now + WINDOW_MS)
    return key
  }
}
