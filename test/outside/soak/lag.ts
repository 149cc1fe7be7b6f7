/** How late a thread itself is, by a timer of its own: what comes late then is not to be blamed on who sent it. */

export interface Lag {
  /** The timer fires: by how many milliseconds too late. */
  tick(now: number): number
  /** How late what happens now may be because of this thread: its timer is overdue, or was when it fired just before. */
  at(now: number): number
}

/** Times in milliseconds of one clock; `start`: now. */
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
