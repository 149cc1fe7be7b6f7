/** The rate limit: one bucket per client address for HTTP and WebSocket on both endpoints, exact over all threads that share its memory. */
import { bucketOf, limiterKey } from '../seam/address.ts'
import type { Refusal } from '../seam/errors.ts'
import { createLimiterMemory, type LimiterMemory, Rows } from './memory.ts'
import { createSeconds, type Seconds } from './seconds.ts'
import { stallPoints } from './stalls.ts'

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
  /** Points that a request turned out to cost when it was done: taken from the seconds that follow, ten at most. */
  owe(address: string, points: number): void
  /** Of an address that was refused as often in this second as it has points: until it is over, nothing that it sends is read. */
  held(address: string): Refusal | undefined
  /** undefined: it has no limit. Takes nothing, and never rejects. */
  standing(address: string): Promise<Standing | undefined>
  /** This thread has stood still for so long, until now: known addresses get the points of that time, for what they sent meanwhile comes at once. */
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
  /** Of those that count together; left out: this limiter is alone. */
  readonly memory?: LimiterMemory
  /** Names this thread among them, for `clearEnded`; from 1. */
  readonly thread?: number
  /** Milliseconds since 1970. */
  readonly now: () => number
}
/** Points per second, or none; undefined: it has no rate of its own. */
export type RateOf = (address: string) => number | 'off' | undefined

/** For how many seconds an address may be in debt. */
const DEBT_SECONDS = 10
/** The answer to an address without a limit. */
export const ALLOWED: Charge = { isAllowed: true, second: 0 }

/** Sleeps until the lock is free: not for the main thread, which alone frees the lock of a thread that has ended. */
export const createLimiter = (options: LimiterOptions): Limiter =>
  hasLimit(options) ? new Limited(new Counting(options), options) : unlimited()

export const hasLimit = ({ perSecond, rateOf }: Pick<LimiterOptions, 'perSecond' | 'rateOf'>) =>
  perSecond !== undefined || rateOf !== undefined

/** Sleeps until the lock is free, so that each call has its answer at once. */
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
  held(address: string): Refusal | undefined {
    return this.#locked((counting) => counting.held(address))
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

/** Counts in the memory. Whoever calls it has the lock, but for `limitOf` and the two counts. */
export class Counting {
  readonly rows: Rows
  /** Points per second of an address; undefined: it has no limit. */
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
  /** The row of a key, with the points of stalls. */
  #current(key: string, limit: number): number {
    const { rows } = this
    const row = this.#seconds.of(key, limit)
    const grantedMs = rows.stallOf(row)
    if (grantedMs === rows.stalledMs) return row
    const asked = { grantedMs, limit: rows.limit(row), now: this.#now() }
    const points = stallPoints(rows.stalls, asked)
    // A thread that ends between these two stores grants nothing, rather than the same points twice.
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

  held(address: string): Refusal | undefined {
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

/** @returns points per second of an address; undefined: it has no limit */
export const rates =
  ({ perSecond, rateOf }: Pick<LimiterOptions, 'perSecond' | 'rateOf'>) =>
  (address: string): number | undefined => {
    const own = rateOf?.(address)
    return own === 'off' ? undefined : (own ?? perSecond)
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

export function unlimited(): Limiter {
  return {
    charge: () => ALLOWED,
    owe() {},
    held: () => undefined,
    standing: async () => undefined,
    stalled() {},
    known: 0,
    charged: 0,
  }
}
