/** Rate limit of calls to one upstream. Public upstreams refuse calls above their limit. */
import { type Clock, until } from './permits.ts'

export interface Pace {
  /**
   * Waits until the calls may leave, in the order of requests.
   * @throws the reason of `signal`
   */
  take(calls: number, signal: AbortSignal): Promise<void>
}

/** @param perSecond 0: no limit */
export function createPace(perSecond: number, clock: Clock): Pace {
  if (perSecond === 0) return { async take() {} }
  /** Calls that may leave now, at most those of one second. */
  let left = perSecond
  let countedAtMs = clock.now()
  let last = Promise.resolve()

  function count(): void {
    const now = clock.now()
    left = Math.min(perSecond, left + ((now - countedAtMs) / 1_000) * perSecond)
    countedAtMs = now
  }

  async function wait(calls: number, signal: AbortSignal): Promise<void> {
    // A larger request leaves with one second's calls, and later requests wait for the rest.
    const needed = Math.min(calls, perSecond)
    for (count(); left < needed; count()) {
      const slept = Promise.withResolvers<void>()
      const cancel = clock.after(Math.ceil(((needed - left) / perSecond) * 1_000), slept.resolve)
      try {
        await until(signal, slept.promise)
      } finally {
        cancel()
      }
    }
    left -= calls
  }

  return {
    take(calls, signal) {
      const mine = last.then(() => wait(calls, signal))
      last = mine.catch(() => {})
      return mine
    },
  }
}
