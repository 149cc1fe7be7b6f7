/** How much may be used in a second, and in a burst. */
import type { Rate } from './limits.ts'

export interface Bucket {
  /** Also more than is left: what something costs may be known only once it is done. */
  take(amount: number): void
  /** Milliseconds until nothing is owed; 0: nothing is. */
  owedMs(): number
}

/** @param now monotonic milliseconds */
export function createBucket({ perSecond, burst }: Rate, now: () => number): Bucket {
  let left = burst
  let at = now()
  const fill = () => {
    const time = now()
    left = Math.min(burst, left + ((time - at) * perSecond) / 1_000)
    at = time
  }
  return {
    take(amount) {
      fill()
      left -= amount
    },
    owedMs() {
      fill()
      return left >= 0 ? 0 : Math.ceil((-left * 1_000) / perSecond)
    },
  }
}
