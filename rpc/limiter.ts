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
  /** Takes all points or none. Seconds are counted from the first request of an address. Never rejects; at once without a limit. */
  charge(address: string, points: number): Charge | Promise<Charge>
  /** Addresses that it remembers. */
  readonly known: number
}

export type LimiterOptions = {
  /** Points per second and address; undefined: no limit. */
  readonly perSecond: number | undefined
  /** Addresses known at a time; the ones beyond share one bucket. */
  readonly keys: number
}

const WINDOW_MS = 1_000
/** An address that was silent for longer begins its seconds anew. */
const KEPT_MS = 10_000
const OVERFLOW_KEY = 'overflow'
const ALLOWED: Charge = { isAllowed: true }

export function createLimiter(options: LimiterOptions): Limiter {
  const { perSecond } = options
  if (perSecond === undefined) return { charge: () => ALLOWED, known: 0 }
  const bucket = new RateLimiterMemory({
    keyPrefix: '',
    points: perSecond,
    duration: WINDOW_MS / 1_000,
  })
  const seconds = createSeconds(options.keys)
  let waiting = 0
  let tail: Promise<unknown> = Promise.resolve()

  async function take(address: string, points: number): Promise<Charge> {
    const { key, leftMs } = seconds.of(address)
    try {
      await bucket.consume(key, points, { customDuration: leftMs / 1_000 })
      return ALLOWED
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
      const key = limiterKey(address)
      // Between a refusal and its points given back, another request would be refused wrongly: it waits for its turn.
      if (waiting === 0 && points === 1) return take(key, points)
      waiting++
      const turn = tail.then(() => take(key, points)).finally(() => waiting--)
      tail = turn
      return turn
    },
    get known() {
      return seconds.size
    },
  }
}

/**
 * Where each address stands: the end of its second. Seconds follow each other without a gap as long as the address is remembered, so that
 * a request late in one second does not shift the next. The bucket itself bounds neither.
 */
function createSeconds(limit: number): {
  of(key: string): { readonly key: string; readonly leftMs: number }
  readonly size: number
} {
  const ends = new Map<string, number>()
  const isForgotten = (end: number, now: number) => end <= now - KEPT_MS || end > now + WINDOW_MS
  function of(key: string) {
    const now = Date.now()
    const known = ends.get(key)
    if (known !== undefined && known > now && known <= now + WINDOW_MS)
      return { key, leftMs: known - now }
    ends.delete(key)
    // In the order of their ends: the oldest stand first.
    for (const [oldest, end] of ends) {
      if (!isForgotten(end, now) && (ends.size < limit || end > now)) break
      ends.delete(oldest)
    }
    if (ends.size >= limit) return { key: OVERFLOW_KEY, leftMs: WINDOW_MS }
    const isRemembered = known !== undefined && !isForgotten(known, now)
    const leftMs = isRemembered ? WINDOW_MS - ((now - known) % WINDOW_MS) : WINDOW_MS
    ends.set(key, now + leftMs)
    return { key, leftMs }
  }
  return {
    of,
    get size() {
      return ends.size
    },
  }
}
