/** The rate limit: one bucket per client address for HTTP and WebSocket on both endpoints. */
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { limiterKey } from '../seam/address.ts'
import type { Refusal } from '../seam/errors.ts'
import type { Paid } from '../seam/paid.ts'

export type Charge = Allowed | ({ readonly isAllowed: false } & Refusal)
/** `second` names the second of the address that the points were taken from. */
export type Allowed = { readonly isAllowed: true; readonly second: number }

export interface Limiter {
  /** Takes all points or none. Seconds are counted from the first request of an address. Never rejects; at once without a limit. */
  charge(address: string, points: number): Charge | Promise<Charge>
  /**
   * Gives back what was taken for the first part of a request that is refused because of the rest, as far as its second is not over: points
   * of another one would be more than the limit in this. Returns how many.
   */
  refund(address: string, paid: Paid): number
  /** Points that a request turned out to cost when it was done: taken from the seconds that follow, ten at most. */
  owe(address: string, points: number): void
  /** Of an address that was refused as often in this second as it has points: until it is over, nothing that it sends is read. */
  held(address: string): Refusal | undefined
  /** This thread stood still for so long: every known address gets the points of that time, for what it sent meanwhile comes at once. */
  stalled(ms: number): void
  /** Addresses that it remembers. */
  readonly known: number
  /** Points taken since the start. */
  readonly charged: number
}

export type LimiterOptions = {
  /** Points per second and address; undefined: no limit. */
  readonly perSecond: number | undefined
  /** Addresses known at a time; the ones beyond share one bucket. */
  readonly keys: number
  /** Milliseconds since 1970: the buckets are the library's, and count by the system's clock. */
  readonly now: () => number
}

const WINDOW_MS = 1_000
/** An address that was silent for longer begins its seconds anew. */
const KEPT_MS = 10_000
/** For how many seconds an address may be in debt. */
const DEBT_SECONDS = 10
const OVERFLOW_KEY = 'overflow'
const ALLOWED: Charge = { isAllowed: true, second: 0 }

export const createLimiter = ({ perSecond, ...rest }: LimiterOptions): Limiter =>
  perSecond === undefined ? unlimited() : limited(perSecond, rest)

/** The library's bucket, by seconds that are ours. It does in memory what it is told before it returns. */
function createBucket(limit: number, now: () => number) {
  const bucket = new RateLimiterMemory({
    keyPrefix: '',
    points: limit,
    duration: WINDOW_MS / 1_000,
  })
  const restOf = ({ end }: Second) => ({ customDuration: (end - now()) / 1_000 })
  return {
    consume: (second: Second, points: number) => bucket.consume(second.key, points, restOf(second)),
    penalty: (second: Second, points: number) => bucket.penalty(second.key, points, restOf(second)),
    /** Nothing, when the second is over: a bucket that is made anew for it would outlive it and take from the next. */
    async giveBack(second: Second, points: number): Promise<void> {
      const rest = restOf(second)
      if (rest.customDuration > 0) await bucket.reward(second.key, points, rest)
    },
  }
}

/** @param limit points per second and address */
function limited(limit: number, { keys, now }: Omit<LimiterOptions, 'perSecond'>): Limiter {
  const bucket = createBucket(limit, now)
  const seconds = createSeconds(keys, { limit, begin: beginOf(bucket, limit), clock: now })
  const leftMs = ({ end }: Second): number => end - now()
  const inTurn = createTurn()
  let charged = 0
  /** How long this thread has stood still, all together. */
  let stalledMs = 0

  function current(key: string): Second {
    const second = seconds.of(key, stalledMs)
    if (second.stalledMs !== stalledMs) {
      const points = Math.floor((limit * (stalledMs - second.stalledMs)) / WINDOW_MS)
      if (points > 0) void bucket.giveBack(second, points)
      second.stalledMs = stalledMs
    }
    return second
  }

  async function take(address: string, points: number): Promise<Charge> {
    const second = current(address)
    try {
      await bucket.consume(second, points)
      charged += points
      return second.allowed
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal
      second.refused++
      // The bucket counts refused points too: given back, so that smaller requests still fit in this second.
      await bucket.giveBack(second, points)
      return refused(refusal, points, limit)
    }
  }

  return {
    charge(address, points) {
      const key = limiterKey(address)
      return inTurn(points === 1, () => take(key, points))
    },
    refund(address, { last, second: name }) {
      const second = seconds.known(limiterKey(address))
      if (last === 0 || second === undefined || second.allowed.second !== name) return 0
      charged -= last
      void bucket.giveBack(second, last)
      return last
    },
    owe(address, points) {
      const second = current(limiterKey(address))
      second.owed = Math.min(second.owed + points, DEBT_SECONDS * limit)
      charged += points
    },
    held(address) {
      const second = seconds.known(limiterKey(address))
      if (second === undefined || second.refused < limit) return undefined
      return { limit, used: limit, cost: 1, retryAfterMs: Math.max(1, leftMs(second)) }
    },
    stalled(ms) {
      stalledMs += ms
    },
    get known() {
      return seconds.size
    },
    get charged() {
      return charged
    },
  }
}

/** What an address has from before its second: debts. */
const beginOf =
  (bucket: ReturnType<typeof createBucket>, limit: number) =>
  (second: Second): void => {
    second.refused = 0
    const due = Math.min(second.owed, limit)
    if (due === 0) return
    second.owed -= due
    void bucket.penalty(second, due)
  }

/** Between a refusal and its points given back, another request would be refused wrongly: it waits for its turn. */
function createTurn(): <T>(isAtOnce: boolean, take: () => Promise<T>) => Promise<T> {
  let waiting = 0
  let tail: Promise<unknown> = Promise.resolve()
  return (isAtOnce, take) => {
    if (waiting === 0 && isAtOnce) return take()
    waiting++
    const turn = tail.then(take).finally(() => waiting--)
    tail = turn
    return turn
  }
}

const refused = (refusal: RateLimiterRes, points: number, limit: number): Charge => ({
  isAllowed: false,
  limit,
  used: refusal.consumedPoints - points,
  cost: points,
  retryAfterMs: Math.max(1, refusal.msBeforeNext),
})

function unlimited(): Limiter {
  return {
    charge: () => ALLOWED,
    refund: () => 0,
    owe() {},
    held: () => undefined,
    stalled() {},
    known: 0,
    charged: 0,
  }
}

/** Where an address stands. */
type Second = {
  /** Of its bucket. */
  readonly key: string
  /** When its second ends. */
  readonly end: number
  /** Points for the seconds to come. */
  owed: number
  refused: number
  /** What a charge of it is answered with. */
  readonly allowed: Allowed
  /** For how much of all stalls it has been given points. */
  stalledMs: number
}

const newSecond = (key: string, end: number): Omit<Second, 'stalledMs'> => ({
  ...{ key, end, owed: 0, refused: 0 },
  allowed: { isAllowed: true, second: end },
})

/**
 * The second of each address. Seconds follow each other without a gap as long as the address is remembered, so that a request late in
 * one second does not shift the next. The bucket itself bounds neither.
 */
function createSeconds(
  most: number,
  {
    limit,
    begin,
    clock,
  }: {
    readonly limit: number
    readonly begin: (second: Second) => void
    readonly clock: () => number
  },
): {
  of(key: string, stalledMs: number): Second
  /** undefined: it has no second now. */
  known(key: string): Second | undefined
  readonly size: number
} {
  const seconds = new Map<string, Second>()
  let overflow: Second | undefined
  /** The time for which this thread stood still is nobody's silence. */
  const isForgotten = (second: Second, now: number, stalledMs: number) =>
    second.end <= now - KEPT_MS - (stalledMs - second.stalledMs) || isAhead(second.end, now)
  /** The clock went back. */
  const isAhead = (end: number, now: number) => end > now + WINDOW_MS
  const isNow = ({ end }: Second, now: number) => end > now && !isAhead(end, now)

  /** For one more, at the cost of the oldest if that is over. */
  function hasRoom(now: number): boolean {
    const [oldest] = seconds.values()
    return seconds.size < most || oldest === undefined || oldest.end <= now
  }

  function shared(now: number, stalledMs: number): Second {
    if (overflow === undefined || !isNow(overflow, now)) {
      const { owed = 0 } = overflow ?? {}
      overflow = { ...newSecond(OVERFLOW_KEY, now + WINDOW_MS), owed, stalledMs }
      begin(overflow)
    }
    return overflow
  }

  function of(key: string, stalledMs: number): Second {
    const now = clock()
    const known = seconds.get(key)
    if (known !== undefined && isNow(known, now)) return known
    seconds.delete(key)
    // In the order of their ends: the oldest stand first.
    for (const [oldest, second] of seconds) {
      if (!isForgotten(second, now, stalledMs) && (seconds.size < most || second.end > now)) break
      seconds.delete(oldest)
    }
    if (seconds.size >= most) return shared(now, stalledMs)
    const isGoingOn = known !== undefined && !isForgotten(known, now, stalledMs)
    const sinceMs = isGoingOn ? (now - known.end) % WINDOW_MS : 0
    const next = { ...newSecond(key, now + WINDOW_MS - sinceMs), stalledMs }
    if (isGoingOn) {
      // What was not asked for paid as well.
      const missed = Math.floor((now - known.end) / WINDOW_MS)
      next.owed = Math.max(0, known.owed - missed * limit)
      next.stalledMs = known.stalledMs
    }
    seconds.set(key, next)
    begin(next)
    return next
  }

  return {
    of,
    known(key) {
      const now = clock()
      const second = seconds.get(key) ?? (hasRoom(now) ? undefined : overflow)
      return second !== undefined && isNow(second, now) ? second : undefined
    },
    get size() {
      return seconds.size
    },
  }
}
