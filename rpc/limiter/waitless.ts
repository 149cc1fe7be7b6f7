/**
 * Limiter for a thread that must not block on the lock. Delayed work runs in order from the event
 * loop, which also frees the locks of ended threads.
 */
import type { Refusal } from '../core/errors.ts'
import { createFifo } from '../core/fifo.ts'
import {
  ALLOWED,
  type Charge,
  Counting,
  hasLimit,
  type Limiter,
  type LimiterOptions,
  refusedTo,
  unlimited,
} from './limiter.ts'

/**
 * Milliseconds between attempts. Other threads have the lock for a microsecond, unless they lose
 * their core or have ended.
 */
const RETRY_MS = 1
/**
 * Maximum number of calls that wait for the lock. Further charges are refused, and further debts
 * are dropped.
 */
const MAX_WAITING = 10_000
const REFUSED_MS = 1_000

export const createWaitlessLimiter = (options: LimiterOptions): Limiter =>
  hasLimit(options) ? waitless(new Counting(options), options) : unlimited()

function waitless(counting: Counting, { now }: Pick<LimiterOptions, 'now'>): Limiter {
  const { rows, limitOf } = counting
  const { attempt, soon, respond } = tryingFor(rows)
  return {
    charge(address, points): Charge | Promise<Charge> {
      const limit = limitOf(address)
      if (limit === undefined) return ALLOWED
      const charge = respond(() => counting.charge(address, points, limit))
      const refusal = { limit, used: limit, cost: points }
      return charge ?? { isAllowed: false, ...refusedTo(address, refusal, REFUSED_MS) }
    },
    owe(address, points) {
      const limit = limitOf(address)
      if (limit !== undefined) soon(() => counting.owe(address, points, limit))
    },
    /** A busy lock gives undefined; the following charge then decides. */
    throttled(address): Refusal | undefined {
      let throttled: Refusal | undefined
      attempt(() => {
        throttled = counting.throttled(address)
      })
      return throttled
    },
    async standing(address) {
      const limit = limitOf(address)
      return limit === undefined ? undefined : respond(() => counting.standing(address, limit))
    },
    stalled(ms) {
      const at = now()
      soon(() => rows.addStall(at - ms, at))
    },
    get known() {
      return counting.known
    },
    get charged() {
      return counting.charged
    },
  }
}

/** Runs work under the lock of the rows, in order, as soon as the lock is free. */
function tryingFor(rows: Counting['rows']) {
  const waiting = createFifo<() => void>()
  let isRetrying = false

  /**
   * Runs the work if the lock is free.
   * @returns whether the work is done
   */
  function attempt(work: () => void): boolean {
    if (!rows.tryLock()) return false
    try {
      work()
      return true
    } finally {
      rows.unlock()
    }
  }
  function retry(): void {
    while (waiting.first !== undefined && attempt(waiting.first)) waiting.shift()
    isRetrying = waiting.length > 0
    if (isRetrying) setTimeout(retry, RETRY_MS)
  }
  /**
   * Runs the work now or later.
   * @returns false if too many wait and the work is dropped
   */
  function soon(work: () => void): boolean {
    if (waiting.length === 0 && attempt(work)) return true
    if (waiting.length >= MAX_WAITING) return false
    waiting.push(work)
    if (!isRetrying) setTimeout(retry, RETRY_MS)
    isRetrying = true
    return true
  }
  /**
   * Runs the work now or later and returns its result.
   * @returns undefined if too many wait
   */
  function respond<T>(work: () => T): T | Promise<T> | undefined {
    let said: { readonly value: T } | undefined
    let resolve: ((value: T) => void) | undefined
    const isTaken = soon(() => {
      said = { value: work() }
      resolve?.(said.value)
    })
    if (said !== undefined) return (said as { readonly value: T }).value
    return isTaken ? new Promise((done) => (resolve = done)) : undefined
  }
  return { attempt, soon, respond }
}
