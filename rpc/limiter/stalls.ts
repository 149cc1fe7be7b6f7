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
