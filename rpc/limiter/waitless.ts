/**
 * The limiter of a thread that never sleeps for the lock. What cannot be done at once is done in its order from the event loop, which also
 * hears that a thread has ended with the lock and frees it.
 */
import type { Refusal } from '../seam/errors.ts'
import { createFifo } from '../seam/fifo.ts'
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

/** Another thread has the lock for a microsecond, unless its core was taken from it or it has ended. */
const RETRY_MS = 1
/** Calls that wait for the lock. A charge beyond them is refused, and a debt is let go. */
const MAX_WAITING = 10_000
const REFUSED_MS = 1_000

export const createWaitlessLimiter = (options: LimiterOptions): Limiter =>
  hasLimit(options) ? waitless(new Counting(options), options) : unlimited()

function waitless(counting: Counting, { now }: Pick<LimiterOptions, 'now'>): Limiter {
  const { rows, limitOf } = counting
  const { attempt, soon, answer } = tryingFor(rows)
  return {
    charge(address, points): Charge | Promise<Charge> {
      const limit = limitOf(address)
      if (limit === undefined) return ALLOWED
      const charge = answer(() => counting.charge(address, points, limit))
      const refusal = { limit, used: limit, cost: points }
      return charge ?? { isAllowed: false, ...refusedTo(address, refusal, REFUSED_MS) }
    },
    owe(address, points) {
      const limit = limitOf(address)
      if (limit !== undefined) soon(() => counting.owe(address, points, limit))
    },
    /** Where it cannot be known now, the charge that follows decides. */
    held(address): Refusal | undefined {
      let held: Refusal | undefined
      attempt(() => {
        held = counting.held(address)
      })
      return held
    },
    async standing(address) {
      const limit = limitOf(address)
      return limit === undefined ? undefined : answer(() => counting.standing(address, limit))
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

/** Works with the lock of the rows, in order, whenever it is free. */
function tryingFor(rows: Counting['rows']) {
  const waiting = createFifo<() => void>()
  let isRetrying = false

  /** @returns whether the work is done */
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
  /** @returns false: too many wait, and the work is let go */
  function soon(work: () => void): boolean {
    if (waiting.length === 0 && attempt(work)) return true
    if (waiting.length >= MAX_WAITING) return false
    waiting.push(work)
    if (!isRetrying) setTimeout(retry, RETRY_MS)
    isRetrying = true
    return true
  }
  /** @returns undefined: too many wait */
  function answer<T>(work: () => T): T | Promise<T> | undefined {
    let said: { readonly value: T } | undefined
    let resolve: ((value: T) => void) | undefined
    const isTaken = soon(() => {
      said = { value: work() }
      resolve?.(said.value)
    })
    if (said !== undefined) return (said as { readonly value: T }).value
    return isTaken ? new Promise((done) => (resolve = done)) : undefined
  }
  return { attempt, soon, answer }
}
