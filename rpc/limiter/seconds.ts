/** The seconds that an address is counted by: they follow each other from its first request, as long as it is remembered. */
export const WINDOW_MS = 1_000
/** An address that was silent for longer begins its seconds anew. */
const KEPT_MS = 10_000
const OVERFLOW_KEY = 'overflow'

/** Where an address stands. */
export type Second = {
  /** Of its bucket. */
  readonly key: string
  /** Points that it has. */
  readonly limit: number
  /** When its second ends. */
  readonly end: number
  /** Points for the seconds to come. */
  owed: number
  refused: number
  /** What a charge of it is answered with. */
  readonly allowed: { readonly isAllowed: true; readonly second: number }
  /** For how much of all stalls it has been given points. */
  stalledMs: number
}

type Asked = { readonly key: string; readonly limit: number; readonly stalledMs: number }
const newSecond = ({ key, limit, stalledMs }: Asked, end: number): Second => ({
  ...{ key, limit, end, owed: 0, refused: 0, stalledMs },
  allowed: { isAllowed: true, second: end },
})

/**
 * The second of each address. Seconds follow each other without a gap as long as the address is remembered, so that a request late in
 * one second does not shift the next. The bucket itself bounds neither.
 */
export function createSeconds(
  most: number,
  {
    begin,
    clock,
  }: {
    readonly begin: (second: Second) => void
    readonly clock: () => number
  },
): {
  /** @param asked its key, the points of a second that begins, and how long this thread has stood still */
  of(asked: Asked): Second
  /** undefined: it has no second now. */
  known(key: string): Second | undefined
  readonly size: number
} {
  const seconds = new Map<string, Second>()
  let overflow: Second | undefined
  /** The time for which this thread stood still is nobody's silence. */
  const isForgotten = (second: Second, now: number, stalledMs: number) =>
    second.end <= now - KEPT_MS - (stalledMs - second.stalledMs) || isAhead(second.end, now)
  /** The clock went back. */
  const isAhead = (end: number, now: number) => end > now + WINDOW_MS
  const isNow = ({ end }: Second, now: number) => end > now && !isAhead(end, now)

  /** For one more, at the cost of the oldest if that is over. */
  function hasRoom(now: number): boolean {
    const [oldest] = seconds.values()
    return seconds.size < most || oldest === undefined || oldest.end <= now
  }

  function shared(asked: Asked, now: number): Second {
    if (overflow === undefined || !isNow(overflow, now)) {
      const { owed = 0 } = overflow ?? {}
      overflow = { ...newSecond({ ...asked, key: OVERFLOW_KEY }, now + WINDOW_MS), owed }
      begin(overflow)
    }
    return overflow
  }

  function of(asked: Asked): Second {
    const { key, limit, stalledMs } = asked
    const now = clock()
    const known = seconds.get(key)
    if (known !== undefined && isNow(known, now)) return known
    seconds.delete(key)
    // In the order of their ends: the oldest stand first.
    for (const [oldest, second] of seconds) {
      if (!isForgotten(second, now, stalledMs) && (seconds.size < most || second.end > now)) break
      seconds.delete(oldest)
    }
    if (seconds.size >= most) return shared(asked, now)
    const isGoingOn = known !== undefined && !isForgotten(known, now, stalledMs)
    const sinceMs = isGoingOn ? (now - known.end) % WINDOW_MS : 0
    const next = newSecond(asked, now + WINDOW_MS - sinceMs)
    if (isGoingOn) {
      // What was not asked for paid as well.
      const missed = Math.floor((now - known.end) / WINDOW_MS)
      next.owed = Math.max(0, known.owed - missed * limit)
      next.stalledMs = known.stalledMs
    }
    seconds.set(key, next)
    begin(next)
    return next
  }

  return {
    of,
    known(key) {
      const now = clock()
      const second = seconds.get(key) ?? (hasRoom(now) ? undefined : overflow)
      return second !== undefined && isNow(second, now) ? second : undefined
    },
    get size() {
      return seconds.size
    },
  }
}
