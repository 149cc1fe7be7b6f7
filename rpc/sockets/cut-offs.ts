/**
 * Addresses that get no new sockets for a while. They twice sent input that costs many times its
 * bytes.
 */

export interface CutOffs {
  /**
   * Records such input.
   * @returns true at the second time within the interval; the address is then cut off
   */
  strike(key: string): boolean
  has(key: string): boolean
}

/**
 * Creates the list.
 * @param ms interval between two strikes, and duration of a cut-off
 * @param now monotonic milliseconds
 */
export function createCutOffs(ms: number, now: () => number): CutOffs {
  const struck = createCutOffKeys(ms, now)
  const cut = createCutOffKeys(ms, now)
  return {
    strike(key) {
      const isSecond = struck.has(key)
      if (isSecond) cut.add(key)
      else struck.add(key)
      return isSecond
    },
    has: cut.has,
  }
}

const MAX_KEYS = 10_000

/** Keys with an expiry after `ms`. The oldest keys are evicted above the limit. */
function createCutOffKeys(
  ms: number,
  now: () => number,
): { add(key: string): void; has(key: string): boolean } {
  const until = new Map<string, number>()
  return {
    add(key) {
      until.delete(key)
      until.set(key, now() + ms)
      if (until.size > MAX_KEYS) until.delete(until.keys().next().value!)
    },
    has(key) {
      const end = until.get(key)
      if (end === undefined) return false
      if (end > now()) return true
      until.delete(key)
      return false
    },
  }
}
