/** Addresses that get no new sockets for a while, because they sent twice what costs many times its bytes to be received. */

export interface CutOffs {
  /** It has sent that. True: for the second time within the bound, and from now on it is cut off. */
  strike(key: string): boolean
  has(key: string): boolean
}

/** @param ms between the first and the second, and for how long it is cut off then @param now monotonic milliseconds */
export function createCutOffs(ms: number, now: () => number): CutOffs {
  const struck = createMarks(ms, now)
  const cut = createMarks(ms, now)
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

const MAX_MARKS = 10_000

/** Keys that are marked for so long. Bounded: the oldest make room. */
function createMarks(
  ms: number,
  now: () => number,
): { add(key: string): void; has(key: string): boolean } {
  const until = new Map<string, number>()
  return {
    add(key) {
      until.delete(key)
      until.set(key, now() + ms)
      if (until.size > MAX_MARKS) until.delete(until.keys().next().value!)
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
