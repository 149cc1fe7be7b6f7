/** The purses of each address, and the points that a stall of this thread gives to all. */
import { addressRates } from '../../rpc/limiter/address-rates.ts'
import {
  type Charge,
  createLimiter,
  type Limiter,
  type LimiterOptions,
  type RateOf,
} from '../../rpc/limiter/limiter.ts'
import type { LimiterMemory } from '../../rpc/limiter/memory.ts'
import type { RedisStores } from '../../rpc/limiter/redis.ts'
import { createSharedLimiter, type PointStore } from '../../rpc/limiter/shared.ts'
import { type Stalls, watchStalls } from '../../rpc/limiter/stalls.ts'
import { createWaitlessLimiter } from '../../rpc/limiter/waitless.ts'
import { keyNameOf } from '../../rpc/seam/address.ts'
import type { ApiKeys } from '../../rpc/seam/api-keys.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import type { NodeConfig } from '../config/serving.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Report } from '../observe/reporter.ts'

export type PursesOptions = {
  readonly config: Pick<NodeConfig, 'rateLimit' | 'rateLimitOf'> & {
    readonly limits: Pick<Limits, 'limiterKeys'>
  }
  /** Of callers that have one. */
  readonly keys?: Pick<ApiKeys, 'rateOf'> | undefined
  /** Has the points of all processes that ask it; undefined: this one is alone. */
  readonly store?: RedisStores | undefined
  /** Has those of all threads; undefined: this one is alone. */
  readonly shared?: SharedPurses | undefined
  readonly metrics: Pick<Metrics, 'refused' | 'stalled'>
  readonly report: Report
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** Of threads that count together. `thread` names this one, from 1. */
export type SharedPurses = {
  readonly calls: LimiterMemory
  readonly visits: LimiterMemory
  readonly thread: number
  /** Whether this thread may sleep for the lock: the main thread may not, because it frees the locks of threads that have ended. */
  readonly mayWait: boolean
}

/** What an address may ask for: of JSON-RPC requests, and of whatever else is asked over HTTP. */
export type Purses = {
  readonly limiter: Limiter
  readonly visits: Limiter
  /** Each as it is counted: what charges goes through it. */
  readonly charging: Charging
  readonly visiting: Charging
  /** Of the store; undefined: there is none. */
  readonly store: (() => Readonly<Record<string, number>>) | undefined
}

export function openPurses(options: PursesOptions): Purses {
  const { config, keys, store, shared, metrics, report, now } = options
  const { rateLimit, limits } = config
  const purse = {
    perSecond: rateLimit === 'off' ? undefined : rateLimit,
    rateOf: rateOf(config.rateLimitOf, keys),
    keys: limits.limiterKeys,
    now: Date.now,
  }
  const openOf = (what: 'calls' | 'visits') => {
    const own = { ...purse, ...(shared && { memory: shared[what], thread: shared.thread }) }
    const create = shared?.mayWait === false ? createWaitlessLimiter : createLimiter
    return openLimiter(own, create(own), store?.open(what))
  }
  const limiter = openOf('calls')
  const visits = openOf('visits')
  const stalls = watchStalls(now, (ms) => {
    limiter.stalled(ms)
    visits.stalled(ms)
    metrics.stalled(ms)
    report('front_stalled', { ms: Math.round(ms) })
  })
  const charging = counted(limiter, (points) => metrics.refused(points), stalls)
  return {
    ...{ limiter, visits, charging },
    visiting: counted(visits, () => {}, stalls),
    store: store && (() => statsOfStore(store, [limiter, visits])),
  }
}

/** `alone`: charges of this process that did not ask the store. */
type Opened = Limiter & { readonly alone?: number }

function openLimiter(purse: LimiterOptions, local: Limiter, store: PointStore | undefined): Opened {
  return store === undefined ? local : createSharedLimiter({ ...purse, local, store })
}

const statsOfStore = (store: RedisStores, limiters: readonly Opened[]) => ({
  limitStoreAway: Number(store.isAway),
  limitStoreFailures: store.failures,
  limitStoreAlone: limiters.reduce((sum, { alone = 0 }) => sum + alone, 0),
})

/** undefined: nobody has a rate of its own. */
function rateOf(
  ranges: readonly string[],
  keys: Pick<ApiKeys, 'rateOf'> | undefined,
): RateOf | undefined {
  if (ranges.length === 0 && keys === undefined) return undefined
  const ofAddress = addressRates(ranges)
  return (address) => {
    const name = keyNameOf(address)
    return name === undefined ? ofAddress(address) : keys?.rateOf(name)
  }
}

/** Notices a stall before it judges: what waited comes before the timer that was late. */
type Charging = Pick<Limiter, 'charge' | 'held' | 'owe' | 'standing'>
function counted(limiter: Limiter, onRefused: (points: number) => void, stalls: Stalls): Charging {
  return {
    held: (address) => limiter.held(address),
    owe: (address, points) => limiter.owe(address, points),
    standing: (address) => limiter.standing(address),
    charge(address, points) {
      stalls.look()
      const note = (charge: Charge): Charge => {
        if (!charge.isAllowed) onRefused(points)
        return charge
      }
      const charge = limiter.charge(address, points)
      return charge instanceof Promise ? charge.then(note) : note(charge)
    },
  }
}
