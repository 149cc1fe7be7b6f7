/** A rate limit with an amount per second and a burst. */
import type { Rate } from './limits.ts'

export interface Bucket {
  /** Takes the amount even if less is left, because the cost may be known only afterwards. */
  take(amount: number): void
  /** Milliseconds until the amount left is no longer negative; 0 if it is not. */
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
