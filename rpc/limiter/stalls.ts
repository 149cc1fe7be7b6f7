/**
 * Detects stalls of this thread: its event loop did not turn, and requests of that time are read
 * together afterwards.
 */

export interface Stalls {
  /**
   * Checks for a stall. Rate decisions call this first, because delayed events may precede the
   * delayed timer.
   */
  check(): void
  close(): void
}

/** Shorter stalls are normal on a busy machine. */
const STALL_MS = 250
const BEAT_MS = 50

/**
 * Watches the event loop.
 * @param now monotonic milliseconds
 */
export function watchStalls(now: () => number, onStall: (ms: number) => void): Stalls {
  let lastBeat = now()
  function check(): void {
    const at = now()
    const stalledMs = at - lastBeat - BEAT_MS
    if (stalledMs <= STALL_MS) return
    // A stall is reported once, by the first check.
    lastBeat = at
    onStall(stalledMs)
  }
  const timer = setInterval(() => {
    check()
    lastBeat = now()
  }, BEAT_MS).unref()
  return { check, close: () => clearInterval(timer) }
}

/** Sum of all stalls in milliseconds. */
export type StallSum = {
  readonly totalMs: number
  /** Part of the sum whose delayed requests have all been read. */
  readonly overMs: number
  /** End of the newest stall, by the clock of the limiter. */
  readonly endedAt: number
}
export const NO_STALLS: StallSum = { totalMs: 0, overMs: 0, endedAt: Number.NEGATIVE_INFINITY }

/** All delayed requests are read within this time after a stall. */
const READ_MS = 1_000

/** Adds a stall. Overlapping stalls of several threads count once. */
export function plusStall(
  { totalMs, overMs, endedAt }: StallSum,
  from: number,
  to: number,
): StallSum {
  // The clock may have been set back.
  const since = endedAt > to ? from : Math.max(from, endedAt)
  const isOver = since - endedAt > READ_MS
  return { totalMs: totalMs + to - since, overMs: isOver ? totalMs : overMs, endedAt: to }
}

/**
 * Returns extra points for stalls. An address gets none once the delayed requests have been read.
 * @param requested `grantedMs` is the stall time already granted
 */
export function stallPoints(
  { totalMs, overMs, endedAt }: StallSum,
  requested: { readonly grantedMs: number; readonly limit: number; readonly now: number },
): number {
  if (requested.now - endedAt > READ_MS) return 0
  return Math.floor((requested.limit * (totalMs - Math.max(requested.grantedMs, overMs))) / 1_000)
}
