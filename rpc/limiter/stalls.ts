/** Notices when this thread stood still: its event loop did not turn, and what clients sent meanwhile is read all at once afterwards. */

export interface Stalls {
  /** To be called by what a stall would wrong, before it judges: events that waited may come before the timer that was late. */
  look(): void
  close(): void
}

/** Shorter ones are a busy machine's everyday. */
const STALL_MS = 250
const BEAT_MS = 50

/** @param now monotonic milliseconds */
export function watchStalls(now: () => number, onStall: (ms: number) => void): Stalls {
  let lastBeat = now()
  function look(): void {
    const at = now()
    const stalledMs = at - lastBeat - BEAT_MS
    if (stalledMs <= STALL_MS) return
    // Told once, by whoever looks first.
    lastBeat = at
    onStall(stalledMs)
  }
  const timer = setInterval(() => {
    look()
    lastBeat = now()
  }, BEAT_MS).unref()
  return { look, close: () => clearInterval(timer) }
}

/** All stalls together, in milliseconds. */
export type StallSum = {
  readonly totalMs: number
  /** The part whose callers have been read by now. */
  readonly overMs: number
  /** When the newest ended, by the clock of the limiter. */
  readonly endedAt: number
}
export const NO_STALLS: StallSum = { totalMs: 0, overMs: 0, endedAt: Number.NEGATIVE_INFINITY }

/** After a stall everything that was sent meanwhile has been read within this. */
const READ_MS = 1_000

/** One more, from one moment to another: of several threads each moment counts once. */
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

/** What one may have for a stall beside its second: who comes when the others have been read has not waited. @param grantedMs of the sum */
export function stallPoints(
  { totalMs, overMs, endedAt }: StallSum,
  asked: { readonly grantedMs: number; readonly limit: number; readonly now: number },
): number {
  if (asked.now - endedAt > READ_MS) return 0
  return Math.floor((asked.limit * (totalMs - Math.max(asked.grantedMs, overMs))) / 1_000)
}
