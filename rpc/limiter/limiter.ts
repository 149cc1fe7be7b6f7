/**
 * Rate limit: one bucket per client address for HTTP and WebSocket on both endpoints. The count is
 * exact over all threads that share its memory.
 */

import type { Refusal } from '../core/errors.ts'
import { bucketOf, limiterKey } from './address.ts'
import { createLimiterMemory, type LimiterMemory, Rows } from './memory.ts'
import { createSeconds, type Seconds } from './seconds.ts'
import { stallPoints } from './stalls.ts'

export type Charge = Allowed | ({ readonly isAllowed: false } & Refusal)
/** `second` identifies the address's second that the points were taken from. */
export type Allowed = { readonly isAllowed: true; readonly second: number }
/** Points of an address in its current second. */
export type Standing = {
  readonly limit: number
  readonly used: number
  /** Points that the following seconds will pay. */
  readonly owed: number
  /** Milliseconds until the current second ends. */
  readonly resetMs: number
}

export interface Limiter {
  /**
   * Takes all points or none. Seconds are counted from the first request of an address. The charge
   * never rejects, and is synchronous for an address without a limit.
   */
  charge(address: string, points: number): Charge | Promise<Charge>
  /**
   * Charges points that became known after the request. The following seconds pay them, at most ten
   * seconds' worth.
   */
  owe(address: string, points: number): void
  /**
   * Returns a refusal if an address was refused as often in this second as it has points. Its input
   * is not read until the second ends.
   */
  throttled(address: string): Refusal | undefined
  /** Returns the points of an address without taking any; never rejects. undefined: no limit. */
  standing(address: string): Promise<Standing | undefined>
  /**
   * Reports that this thread stood still for `ms` until now. Known addresses get points for that
   * time, because their delayed requests arrive together.
   */
  stalled(ms: number): void
  /** Number of addresses in memory. */
  readonly known: number
  /** Points taken since the start. */
  readonly charged: number
}

export type LimiterOptions = {
  /** Points per second and address. undefined: no limit. */
  readonly perSecond: number | undefined
  /** Rates of single addresses, which replace `perSecond`. */
  readonly rateOf?: RateOf | undefined
  /** Maximum number of known addresses. Further addresses share one bucket. */
  readonly keys: number
  /** Memory shared with other threads. Left out: this limiter is alone. */
  readonly memory?: LimiterMemory
  /** Number of this thread in the memory, from 1, for `clearEnded`. */
  readonly thread?: number
  /** Milliseconds since 1970. */
  readonly now: () => number
}
/** Points per second, or `off` for no limit. undefined: the address has no rate of its own. */
export type RateOf = (address: string) => number | 'off' | undefined

/** Maximum debt of an address, in seconds' worth of points. */
const DEBT_SECONDS = 10
/** Charge of an address without a limit. */
export const ALLOWED: Charge = { isAllowed: true, second: 0 }

/**
 * Creates a limiter that blocks until the lock is free. The main thread must not use it, because it
 * frees the locks of ended threads.
 */
export const createLimiter = (options: LimiterOptions): Limiter =>
  hasLimit(options) ? new Limited(new Counting(options), options) : unlimited()

export const hasLimit = ({ perSecond, rateOf }: Pick<LimiterOptions, 'perSecond' | 'rateOf'>) =>
  perSecond !== undefined || rateOf !== undefined

/** Limiter that blocks until the lock is free, so every charge is synchronous. */
class Limited implements Limiter {
  readonly #counting: Counting
  readonly #now: () => number

  constructor(counting: Counting, { now }: Pick<LimiterOptions, 'now'>) {
    this.#counting = counting
    this.#now = now
  }

  charge(address: string, points: number): Charge {
    const counting = this.#counting
    const limit = counting.limitOf(address)
    if (limit === undefined) return ALLOWED
    const { rows } = counting
    rows.lock()
    try {
      return counting.charge(address, points, limit)
    } finally {
      rows.unlock()
    }
  }
  owe(address: string, points: number): void {
    const limit = this.#counting.limitOf(address)
    if (limit !== undefined) this.#locked((counting) => counting.owe(address, points, limit))
  }
  throttled(address: string): Refusal | undefined {
    return this.#locked((counting) => counting.throttled(address))
  }
  async standing(address: string): Promise<Standing | undefined> {
    const limit = this.#counting.limitOf(address)
    return limit === undefined
      ? undefined
      : this.#locked((counting) => counting.standing(address, limit))
  }
  stalled(ms: number): void {
    const now = this.#now()
    this.#locked(({ rows }) => rows.addStall(now - ms, now))
  }
  #locked<T>(use: (counting: Counting) => T): T {
    const counting = this.#counting
    const { rows } = counting
    rows.lock()
    try {
      return use(counting)
    } finally {
      rows.unlock()
    }
  }
  get known(): number {
    return this.#counting.known
  }
  get charged(): number {
    return this.#counting.charged
  }
}

/**
 * Counting in the shared memory. The caller has the lock, except for `limitOf`, `known` and
 * `charged`.
 */
export class Counting {
  readonly rows: Rows
  /** Points per second of an address. undefined: no limit. */
  readonly limitOf: (address: string) => number | undefined
  readonly #now: () => number
  readonly #seconds: Seconds
  #charged = 0

  constructor({
    keys,
    memory = createLimiterMemory(keys),
    thread = 1,
    now,
    ...options
  }: LimiterOptions) {
    this.#now = now
    this.limitOf = rates(options)
    this.rows = new Rows(memory, thread)
    this.#seconds = createSeconds(this.rows, now)
  }

  charge(address: string, points: number, limit: number): Charge {
    const { rows } = this
    const row = this.#current(limiterKey(address), limit)
    const used = rows.used(row)
    if (used + points <= rows.limit(row)) {
      rows.setUsed(row, used + points)
      this.#charged += points
      return { isAllowed: true, second: rows.end(row) }
    }
    rows.addRefused(row)
    const said = { limit: rows.limit(row), used, cost: points }
    return { isAllowed: false, ...refusedTo(address, said, this.#leftMs(row)) }
  }
  /** Returns the row of a key, after granting the points of stalls. */
  #current(key: string, limit: number): number {
    const { rows } = this
    const row = this.#seconds.of(key, limit)
    const grantedMs = rows.stallOf(row)
    if (grantedMs === rows.stalledMs) return row
    const requested = { grantedMs, limit: rows.limit(row), now: this.#now() }
    const points = stallPoints(rows.stalls, requested)
    // The order of the stores matters, because a thread may end between them. Points are then lost
    // rather than granted twice.
    rows.setStall(row, rows.stalledMs)
    rows.setUsed(row, rows.used(row) - points)
    return row
  }

  owe(address: string, points: number, limit: number): void {
    const { rows } = this
    this.#charged += points
    const row = this.#current(limiterKey(address), limit)
    rows.setOwed(row, Math.min(rows.owed(row) + points, DEBT_SECONDS * rows.limit(row)))
  }

  throttled(address: string): Refusal | undefined {
    const { rows } = this
    const row = this.#seconds.known(limiterKey(address))
    if (row === undefined || rows.refused(row) < rows.limit(row)) return undefined
    const limit = rows.limit(row)
    return refusedTo(address, { limit, used: limit, cost: 1 }, this.#leftMs(row))
  }

  standing(address: string, limit: number): Standing {
    const { rows } = this
    const row = this.#current(limiterKey(address), limit)
    const used = Math.max(0, rows.used(row))
    return { limit: rows.limit(row), used, owed: rows.owed(row), resetMs: this.#leftMs(row) }
  }
  #leftMs(row: number): number {
    return this.rows.end(row) - this.#now()
  }

  get known(): number {
    return this.rows.size
  }
  get charged(): number {
    return this.#charged
  }
}

/** Returns a function from address to points per second. undefined: no limit. */
export const rates =
  ({ perSecond, rateOf }: Pick<LimiterOptions, 'perSecond' | 'rateOf'>) =>
  (address: string): number | undefined => {
    const own = rateOf?.(address)
    return own === 'off' ? undefined : (own ?? perSecond)
  }

/**
 * Makes the refusal of a charge.
 * @param leftMs milliseconds until the second ends
 */
export const refusedTo = (
  address: string,
  points: Pick<Refusal, 'limit' | 'used' | 'cost'>,
  leftMs: number,
): Refusal => ({
  ...bucketOf(address),
  ...points,
  retryAfterMs: Math.max(1, leftMs),
})

export function unlimited(): Limiter {
  return {
    charge: () => ALLOWED,
    owe() {},
    throttled: () => undefined,
    standing: async () => undefined,
    stalled() {},
    known: 0,
    charged: 0,
  }
}
