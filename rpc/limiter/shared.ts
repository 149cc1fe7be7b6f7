/**
 * Rate limit over several processes: a common store has the points. While the store does not
 * respond, each process counts alone. Requests then neither wait nor fail.
 */

import type { Refusal } from '../core/errors.ts'
import { limiterKey } from './address.ts'
import {
  type Charge,
  type Limiter,
  type LimiterOptions,
  rates,
  refusedTo,
  type Standing,
} from './limiter.ts'
import { NO_STALLS, plusStall, stallPoints } from './stalls.ts'

/** Points of a key's second in the store. */
export type Points = {
  /** Points taken in the second plus the requested ones, even if these were refused. */
  readonly used: number
  /** Identity of the second: its end by the clock of the store. */
  readonly second: number
  readonly leftMs: number
}
/**
 * Points of seconds by key, shared by many processes. Each promise rejects if the store does not
 * respond.
 */
export interface PointStore {
  /** The store can take requests now. */
  readonly isUp: boolean
  /**
   * Takes all points, or none above the limit. Points are never taken twice, or after the
   * response's timeout.
   */
  take(key: string, points: number, limit: number): Promise<Points>
  /** Charges points to the following seconds. */
  owe(key: string, points: number, limit: number): Promise<Points>
  /** Adds points to the current second. */
  grant(key: string, points: number, limit: number): Promise<Points>
  /** Reads the points without taking any. */
  peek(key: string, limit: number): Promise<Points & { readonly owed: number }>
}

export type SharedLimiter = Limiter & {
  /** Number of charges that this process decided alone. */
  readonly alone: number
}

/** Data that this process caches about a key. */
type Recent = {
  readonly second: number
  /** End of the second by the local clock. */
  readonly until: number
  readonly limit: number
  refused: number
  /** Total stall time that the key was already granted points for. */
  stalledMs: number
}

/**
 * Returns the identity of a store's second. The negative sign distinguishes them from seconds of
 * this process.
 */
const nameOf = (second: number): number => -second

type SharedOptions = LimiterOptions & { readonly local: Limiter; readonly store: PointStore }

export const createSharedLimiter = (options: SharedOptions): SharedLimiter => new Shared(options)

class Shared implements SharedLimiter {
  readonly #local: Limiter
  readonly #store: PointStore
  /** Milliseconds since 1970. */
  readonly #now: () => number
  readonly #limitOf: (address: string) => number | undefined
  readonly #recent: ReturnType<typeof createRecent>
  #charged = 0
  #alone = 0
  /** Stalls of this thread. */
  #stalls = NO_STALLS

  constructor(options: SharedOptions) {
    this.#local = options.local
    this.#store = options.store
    this.#now = options.now
    this.#limitOf = rates(options)
    this.#recent = createRecent(options.keys)
  }

  charge(address: string, points: number): Charge | Promise<Charge> {
    const limit = this.#limitOf(address)
    if (limit === undefined || !this.#store.isUp) return this.#chargeAlone(address, points)
    return this.#take(address, points, limit)
  }
  #chargeAlone(address: string, points: number): Charge | Promise<Charge> {
    this.#alone++
    return this.#local.charge(address, points)
  }
  async #take(address: string, points: number, limit: number): Promise<Charge> {
    const key = limiterKey(address)
    this.#grantStall(key, limit)
    let said: Points
    try {
      said = await this.#store.take(key, points, limit)
    } catch {
      return this.#chargeAlone(address, points)
    }
    const of = this.#remember(key, limit, said)
    if (said.used <= limit) {
      this.#charged += points
      return { isAllowed: true, second: nameOf(said.second) }
    }
    of.refused++
    const refusal = { limit, used: said.used - points, cost: points }
    return { isAllowed: false, ...refusedTo(address, refusal, said.leftMs) }
  }
  #remember(key: string, limit: number, { second, leftMs }: Points): Recent {
    const known = this.#recent.get(key)
    if (known?.second === second) return known
    const stalledMs = known?.stalledMs ?? this.#stalls.totalMs
    const until = this.#now() + leftMs
    return this.#recent.set(key, { second, limit, until, refused: 0, stalledMs })
  }
  /** Grants points for stalls of this thread, because delayed requests arrive together. */
  #grantStall(key: string, limit: number): void {
    const known = this.#recent.get(key)
    if (known === undefined || known.stalledMs === this.#stalls.totalMs) return
    const requested = { grantedMs: known.stalledMs, limit, now: this.#now() }
    const points = stallPoints(this.#stalls, requested)
    known.stalledMs = this.#stalls.totalMs
    // The grant precedes the next request, because the connection preserves order.
    if (points > 0) this.#store.grant(key, points, limit).catch(() => {})
  }

  owe(address: string, points: number): void {
    const limit = this.#limitOf(address)
    if (limit === undefined) return
    if (!this.#store.isUp) {
      this.#local.owe(address, points)
      return
    }
    this.#store.owe(limiterKey(address), points, limit).then(
      () => {
        this.#charged += points
      },
      () => this.#local.owe(address, points),
    )
  }

  throttled(address: string): Refusal | undefined {
    const now = this.#now()
    const known = this.#recent.get(limiterKey(address))
    const isThrottled = known !== undefined && known.refused >= known.limit && known.until > now
    if (!isThrottled) return this.#local.throttled(address)
    const { limit, until } = known
    return refusedTo(address, { limit, used: limit, cost: 1 }, until - now)
  }

  async standing(address: string): Promise<Standing | undefined> {
    const limit = this.#limitOf(address)
    if (limit === undefined || !this.#store.isUp) return this.#local.standing(address)
    try {
      const { used, owed, leftMs } = await this.#store.peek(limiterKey(address), limit)
      return { limit, used: Math.max(0, used), owed, resetMs: leftMs }
    } catch {
      return this.#local.standing(address)
    }
  }

  stalled(ms: number): void {
    const now = this.#now()
    this.#stalls = plusStall(this.#stalls, now - ms, now)
    this.#local.stalled(ms)
  }
  get known(): number {
    return this.#recent.size + this.#local.known
  }
  get charged(): number {
    return this.#charged + this.#local.charged
  }
  get alone(): number {
    return this.#alone
  }
}

/** Cache of the newest keys. */
function createRecent(max: number) {
  const all = new Map<string, Recent>()
  return {
    get: (key: string) => all.get(key),
    /** Adds a key as the newest one, so the oldest second is evicted first. */
    set(key: string, one: Recent): Recent {
      all.delete(key)
      if (all.size >= max) all.delete(all.keys().next().value!)
      all.set(key, one)
      return one
    },
    get size() {
      return all.size
    },
  }
}
