/**
 * The rate limit over several processes: a store that all of them ask has the points. While it does not answer each of them counts alone, as
 * if there were none, so that nobody waits for it and no request fails of it.
 */
import { limiterKey } from '../seam/address.ts'
import type { Refusal } from '../seam/errors.ts'
import {
  type Charge,
  type Limiter,
  type LimiterOptions,
  rates,
  refusedTo,
  type Standing,
} from './limiter.ts'
import { NO_STALLS, plusStall, stallPoints } from './stalls.ts'

/** What a store says of the second of a key. */
export type Points = {
  /** Taken of it, with those that were asked for, whether or not these were taken. */
  readonly used: number
  /** Its name: when it ends, by the clock of the store. */
  readonly second: number
  readonly leftMs: number
}
/** Points of a second by key, in one place for many processes. Each of its promises rejects where there is no answer. */
export interface PointStore {
  /** Worth asking. */
  readonly isUp: boolean
  /** All of them, or none where that is more than the limit. Never twice, and not once it is too late for an answer. */
  take(key: string, points: number, limit: number): Promise<Points>
  /** Off the seconds that follow. */
  owe(key: string, points: number, limit: number): Promise<Points>
  /** Points beside those of the second. */
  grant(key: string, points: number, limit: number): Promise<Points>
  /** Takes nothing. */
  look(key: string, limit: number): Promise<Points & { readonly owed: number }>
}

export type SharedLimiter = Limiter & {
  /** Charges that this process decided alone. */
  readonly alone: number
}

/** What this process remembers of a key. */
type Recent = {
  readonly second: number
  /** By the clock here. */
  readonly until: number
  readonly limit: number
  refused: number
  /** For how much of all stalls it has been granted points. */
  stalledMs: number
}

/** The names of seconds of the store are told from those of this process by their sign. */
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
  /** Of this thread. */
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
    const of = this.#noted(key, limit, said)
    if (said.used <= limit) {
      this.#charged += points
      return { isAllowed: true, second: nameOf(said.second) }
    }
    of.refused++
    const refusal = { limit, used: said.used - points, cost: points }
    return { isAllowed: false, ...refusedTo(address, refusal, said.leftMs) }
  }
  #noted(key: string, limit: number, { second, leftMs }: Points): Recent {
    const known = this.#recent.get(key)
    if (known?.second === second) return known
    const stalledMs = known?.stalledMs ?? this.#stalls.totalMs
    const until = this.#now() + leftMs
    return this.#recent.set(key, { second, limit, until, refused: 0, stalledMs })
  }
  /** This thread stood still: what it could not read meanwhile comes at once. */
  #grantStall(key: string, limit: number): void {
    const known = this.#recent.get(key)
    if (known === undefined || known.stalledMs === this.#stalls.totalMs) return
    const asked = { grantedMs: known.stalledMs, limit, now: this.#now() }
    const points = stallPoints(this.#stalls, asked)
    known.stalledMs = this.#stalls.totalMs
    // In the order of the connection: before what is asked next.
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

  held(address: string): Refusal | undefined {
    const now = this.#now()
    const known = this.#recent.get(limiterKey(address))
    const isHeld = known !== undefined && known.refused >= known.limit && known.until > now
    if (!isHeld) return this.#local.held(address)
    const { limit, until } = known
    return refusedTo(address, { limit, used: limit, cost: 1 }, until - now)
  }

  async standing(address: string): Promise<Standing | undefined> {
    const limit = this.#limitOf(address)
    if (limit === undefined || !this.#store.isUp) return this.#local.standing(address)
    try {
      const { used, owed, leftMs } = await this.#store.look(limiterKey(address), limit)
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

/** The newest keys. */
function createRecent(most: number) {
  const all = new Map<string, Recent>()
  return {
    get: (key: string) => all.get(key),
    /** In the order of their seconds: the oldest stand first. */
    set(key: string, one: Recent): Recent {
      all.delete(key)
      if (all.size >= most) all.delete(all.keys().next().value!)
      all.set(key, one)
      return one
    },
    get size() {
      return all.size
    },
  }
}
