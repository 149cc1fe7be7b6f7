/** A thread measures its own delay with a timer, so that its delay is not blamed on the sender. */

export interface Lag {
  /** Takes a tick of the timer and gives its delay in milliseconds. */
  tick(now: number): number
  /**
   * Gives the delay of this thread now: its timer is overdue, or was overdue when it fired just
   * before.
   */
  at(now: number): number
}

/** Makes the measure; all times are milliseconds of one clock, and `start` is now. */
export function watchLag(tickMs: number, start: number): Lag {
  let lastTick = start
  let lastLag = 0
  const overdue = (now: number) => Math.max(0, now - lastTick - tickMs)
  return {
    tick(now) {
      lastLag = overdue(now)
      lastTick = now
      return lastLag
    },
    at: (now) => Math.max(overdue(now), now - lastTick < tickMs ? lastLag : 0),
  }
}
