/** The rate limit: one bucket per client address for HTTP and WebSocket on both endpoints. */
import { createRequire } from 'node:module'
import type * as library from 'rate-limiter-flexible'
import { bucketOf, limiterKey } from '../seam/address.ts'
import type { Refusal } from '../seam/errors.ts'
import type { Paid } from '../seam/paid.ts'
import { createSeconds, type Second, WINDOW_MS } from './seconds.ts'

// Part by part: its index loads 36 modules, one for each store.
const load = createRequire(import.meta.url)
const RateLimiterMemory = load(
  'rate-limiter-flexible/lib/RateLimiterMemory',
) as typeof library.RateLimiterMemory
const RateLimiterRes = load(
  'rate-limiter-flexible/lib/RateLimiterRes',
) as typeof library.RateLimiterRes

export type Charge = Allowed | ({ readonly isAllowed: false } & Refusal)
/** `second` names the second of the address that the points were taken from. */
export type Allowed = { readonly isAllowed: true; readonly second: number }
/** What an address has of its second. */
export type Standing = {
  readonly limit: number
  readonly used: number
  /** Points that come off the seconds that follow. */
  readonly owed: number
  /** Until its second ends. */
  readonly resetMs: number
}

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
  /** undefined: it has no limit. Takes nothing, and never rejects. */
  standing(address: string): Promise<Standing | undefined>
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
  /** Of single addresses, in place of that. */
  readonly rateOf?: RateOf | undefined
  /** Addresses known at a time; the ones beyond share one bucket. */
  readonly keys: number
  /** Milliseconds since 1970: the buckets are the library's, and count by the system's clock. */
  readonly now: () => number
}
/** Points per second, or none; undefined: it has no rate of its own. */
export type RateOf = (address: string) => number | 'off' | undefined

/** For how many seconds an address may be in debt. */
const DEBT_SECONDS = 10
/** Different rates at a time: each has the library's bucket to itself. */
const MOST_RATES = 256
const ALLOWED: Charge = { isAllowed: true, second: 0 }

export const createLimiter = (options: LimiterOptions): Limiter =>
  options.perSecond === undefined && options.rateOf === undefined ? unlimited() : limited(options)

/** @returns points per second of an address; undefined: it has no limit */
export const rates =
  ({ perSecond, rateOf }: Pick<LimiterOptions, 'perSecond' | 'rateOf'>) =>
  (address: string): number | undefined => {
    const own = rateOf?.(address)
    return own === 'off' ? undefined : (own ?? perSecond)
  }

/** The library's buckets, by seconds that are ours. They do in memory what they are told before they return. */
function createBuckets(now: () => number) {
  const buckets = new Map<number, library.RateLimiterMemory>()
  function bucketFor(limit: number): library.RateLimiterMemory {
    const known = buckets.get(limit)
    if (known !== undefined) return known
    const made = new RateLimiterMemory({
      keyPrefix: '',
      points: limit,
      duration: WINDOW_MS / 1_000,
    })
    if (buckets.size >= MOST_RATES) buckets.delete(buckets.keys().next().value!)
    buckets.set(limit, made)
    return made
  }
  // The library takes nothing for never: a bucket that is made as its second ends would be full for good one day.
  const restOf = ({ end }: Second) => ({ customDuration: Math.max(1, end - now()) / 1_000 })
  return {
    consume: (second: Second, points: number) =>
      bucketFor(second.limit).consume(second.key, points, restOf(second)),
    penalty: (second: Second, points: number) =>
      bucketFor(second.limit).penalty(second.key, points, restOf(second)),
    /** Nothing, when the second is over: a bucket that is made anew for it would outlive it and take from the next. */
    async giveBack(second: Second, points: number): Promise<void> {
      if (second.end > now())
        await bucketFor(second.limit).reward(second.key, points, restOf(second))
    },
    used: async ({ limit, key }: Second): Promise<number> =>
      (await bucketFor(limit).get(key))?.consumedPoints ?? 0,
  }
}

const limited = (options: LimiterOptions): Limiter => new Limited(options)

class Limited implements Limiter {
  readonly #now: () => number
  readonly #limitOf: (address: string) => number | undefined
  readonly #buckets: ReturnType<typeof createBuckets>
  readonly #seconds: ReturnType<typeof createSeconds>
  readonly #inTurn = createTurn()
  #charged = 0
  /** How long this thread has stood still, all together. */
  #stalledMs = 0

  constructor({ keys, now, ...options }: LimiterOptions) {
    this.#now = now
    this.#limitOf = rates(options)
    this.#buckets = createBuckets(now)
    this.#seconds = createSeconds(keys, { begin: beginOf(this.#buckets), clock: now })
  }

  charge(address: string, points: number): Charge | Promise<Charge> {
    const limit = this.#limitOf(address)
    if (limit === undefined) return ALLOWED
    return this.#inTurn(points === 1, () => this.#take(address, points, limit))
  }
  async #take(address: string, points: number, limit: number): Promise<Charge> {
    const second = this.#current(limiterKey(address), limit)
    try {
      await this.#buckets.consume(second, points)
      this.#charged += points
      return second.allowed
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal
      second.refused++
      // The bucket counts refused points too: given back, so that smaller requests still fit in this second.
      await this.#buckets.giveBack(second, points)
      const used = refusal.consumedPoints - points
      const said = { limit: second.limit, used, cost: points }
      return { isAllowed: false, ...refusedTo(address, said, refusal.msBeforeNext) }
    }
  }
  #current(key: string, limit: number): Second {
    const second = this.#seconds.of({ key, limit, stalledMs: this.#stalledMs })
    if (second.stalledMs !== this.#stalledMs) {
      const stalledMs = this.#stalledMs - second.stalledMs
      const points = Math.floor((second.limit * stalledMs) / WINDOW_MS)
      if (points > 0) void this.#buckets.giveBack(second, points)
      second.stalledMs = this.#stalledMs
    }
    return second
  }

  refund(address: string, { last, second: name }: Paid): number {
    const second = this.#seconds.known(limiterKey(address))
    if (last === 0 || second === undefined || second.allowed.second !== name) return 0
    this.#charged -= last
    void this.#buckets.giveBack(second, last)
    return last
  }

  owe(address: string, points: number): void {
    const limit = this.#limitOf(address)
    if (limit === undefined) return
    const second = this.#current(limiterKey(address), limit)
    second.owed = Math.min(second.owed + points, DEBT_SECONDS * second.limit)
    this.#charged += points
  }

  held(address: string): Refusal | undefined {
    const second = this.#seconds.known(limiterKey(address))
    if (second === undefined || second.refused < second.limit) return undefined
    const { limit } = second
    return refusedTo(address, { limit, used: limit, cost: 1 }, this.#leftMs(second))
  }

  async standing(address: string): Promise<Standing | undefined> {
    const limit = this.#limitOf(address)
    if (limit === undefined) return undefined
    const second = this.#current(limiterKey(address), limit)
    const used = Math.max(0, await this.#buckets.used(second))
    return { limit: second.limit, used, owed: second.owed, resetMs: this.#leftMs(second) }
  }
  #leftMs({ end }: Second): number {
    return end - this.#now()
  }

  stalled(ms: number): void {
    this.#stalledMs += ms
  }
  get known(): number {
    return this.#seconds.size
  }
  get charged(): number {
    return this.#charged
  }
}

/** What an address has from before its second: debts. */
const beginOf =
  (buckets: ReturnType<typeof createBuckets>) =>
  (second: Second): void => {
    second.refused = 0
    const due = Math.min(second.owed, second.limit)
    if (due === 0) return
    second.owed -= due
    void buckets.penalty(second, due)
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

/** What somebody is told who may not. @param leftMs until its second ends */
export const refusedTo = (
  address: string,
  points: Pick<Refusal, 'limit' | 'used' | 'cost'>,
  leftMs: number,
): Refusal => ({
  ...bucketOf(address),
  ...points,
  retryAfterMs: Math.max(1, leftMs),
})

function unlimited(): Limiter {
  return {
    charge: () => ALLOWED,
    refund: () => 0,
    owe() {},
    held: () => undefined,
    standing: async () => undefined,
    stalled() {},
    known: 0,
    charged: 0,
  }
}
