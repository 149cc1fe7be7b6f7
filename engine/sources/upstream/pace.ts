/** So many calls a second of one upstream: public ones refuse what is more. */
import { type Clock, until } from './places.ts'

export interface Pace {
  /** Resolves when so many calls may leave, in the order of asking. @throws the reason of `signal` */
  take(calls: number, signal: AbortSignal): Promise<void>
}

/** @param perSecond 0: as many as there are */
export function createPace(perSecond: number, clock: Clock): Pace {
  if (perSecond === 0) return { async take() {} }
  /** Calls that may leave now: at most those of a second. */
  let left = perSecond
  let countedAtMs = clock.now()
  let last = Promise.resolve()

  function count(): void {
    const now = clock.now()
    left = Math.min(perSecond, left + ((now - countedAtMs) / 1_000) * perSecond)
    countedAtMs = now
  }

  async function wait(calls: number, signal: AbortSignal): Promise<void> {
    // More than those of a second leave when these are there, and those that come later wait for the rest.
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
