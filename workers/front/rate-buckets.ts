/**
 * Rate buckets of all addresses, and the points that every address gets after a stall of this
 * thread.
 */

import type { ApiKeys } from '../../rpc/core/api-keys.ts'
import type { Limits } from '../../rpc/core/limits.ts'
import { keyNameOf } from '../../rpc/limiter/address.ts'
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
import type { NodeConfig } from '../config/serving-options.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Report } from '../observe/reporter.ts'

export type RateBucketsOptions = {
  readonly config: Pick<NodeConfig, 'rateLimit' | 'rateLimitOf'> & {
    readonly limits: Pick<Limits, 'limiterKeys'>
  }
  /** Rates of callers with an API key. */
  readonly keys?: Pick<ApiKeys, 'rateOf'> | undefined
  /** Store with the points of several processes; undefined when this process is alone. */
  readonly store?: RedisStores | undefined
  /** Memory with the points of several threads; undefined when this thread is alone. */
  readonly shared?: SharedRateBuckets | undefined
  readonly metrics: Pick<Metrics, 'refused' | 'stalled'>
  readonly report: Report
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** Memory of threads that share their buckets. `thread` is this thread's number, from 1. */
export type SharedRateBuckets = {
  readonly calls: LimiterMemory
  readonly nonRpcRequests: LimiterMemory
  readonly thread: number
  /**
   * The thread may sleep for the lock. The main thread may not, because it frees the locks of ended
   * threads.
   */
  readonly mayWait: boolean
}

/** Limits of an address: for JSON-RPC requests, and for all other HTTP requests. */
export type RateBuckets = {
  readonly limiter: Limiter
  readonly nonRpcRequests: Limiter
  /** Both limiters with counts of their refusals; all charges go through these. */
  readonly charging: Charging
  readonly visiting: Charging
  /** Numbers of the store; undefined when there is none. */
  readonly store: (() => Readonly<Record<string, number>>) | undefined
}

export function openRateBuckets(options: RateBucketsOptions): RateBuckets {
  const { config, keys, store, shared, metrics, report, now } = options
  const { rateLimit, limits } = config
  const bucket = {
    perSecond: rateLimit === 'off' ? undefined : rateLimit,
    rateOf: rateOf(config.rateLimitOf, keys),
    keys: limits.limiterKeys,
    now: Date.now,
  }
  const openOf = (what: 'calls' | 'visits') => {
    const own = {
      ...bucket,
      ...(shared && {
        memory: what === 'calls' ? shared.calls : shared.nonRpcRequests,
        thread: shared.thread,
      }),
    }
    const create = shared?.mayWait === false ? createWaitlessLimiter : createLimiter
    return openLimiter(own, create(own), store?.open(what))
  }
  const limiter = openOf('calls')
  const nonRpcRequests = openOf('visits')
  const stalls = watchStalls(now, (ms) => {
    limiter.stalled(ms)
    nonRpcRequests.stalled(ms)
    metrics.stalled(ms)
    report('front_stalled', { ms: Math.round(ms) })
  })
  const charging = counted(limiter, (points) => metrics.refused(points), stalls)
  return {
    limiter,
    nonRpcRequests,
    charging,
    visiting: counted(nonRpcRequests, () => {}, stalls),
    store: store && (() => statsOfStore(store, [limiter, nonRpcRequests])),
  }
}

/** `alone` counts the charges of this process that did not reach the store. */
type Opened = Limiter & { readonly alone?: number }

function openLimiter(
  bucket: LimiterOptions,
  local: Limiter,
  store: PointStore | undefined,
): Opened {
  return store === undefined ? local : createSharedLimiter({ ...bucket, local, store })
}

const statsOfStore = (store: RedisStores, limiters: readonly Opened[]) => ({
  limitStoreAway: Number(store.isDisconnected),
  limitStoreFailures: store.failures,
  limitStoreAlone: limiters.reduce((sum, { alone = 0 }) => sum + alone, 0),
})

/** Returns the rates of single callers; undefined when there are none. */
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

/** Checks for a stall before each charge, because waiting requests run before the delayed timer. */
type Charging = Pick<Limiter, 'charge' | 'throttled' | 'owe' | 'standing'>
function counted(limiter: Limiter, onRefused: (points: number) => void, stalls: Stalls): Charging {
  return {
    throttled: (address) => limiter.throttled(address),
    owe: (address, points) => limiter.owe(address, points),
    standing: (address) => limiter.standing(address),
    charge(address, points) {
      stalls.check()
      const remember = (charge: Charge): Charge => {
        if (!charge.isAllowed) onRefused(points)
        return charge
      }
      const charge = limiter.charge(address, points)
      return charge instanceof Promise ? charge.then(remember) : remember(charge)
    },
  }
}
