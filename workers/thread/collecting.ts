/**
 * Has the heaps of idle pool threads collected after long work. V8 lets garbage lie where nobody allocates: a thread that has traced a
 * block keeps hundreds of megabytes until it runs for long again.
 */

export interface Collecting {
  /** A call has taken so much of a worker's processor. */
  spent(cpuMs: number): void
  stop(): void
}

/** A call that takes less leaves little. */
const LONG_MS = 20
/** After the last such call, and again where the pool is busy then. */
const QUIET_MS = 2_000

/** @param isIdle no call waits or runs */
export function createCollecting(collect: () => void, isIdle: () => boolean): Collecting {
  let timer: NodeJS.Timeout | undefined
  function look(): void {
    timer = isIdle() ? undefined : setTimeout(look, BUSY_MS).unref()
    if (timer === undefined) collect()
  }
  return {
    spent(cpuMs) {
      if (cpuMs < LONG_MS) return
      clearTimeout(timer)
      timer = setTimeout(look, QUIET_MS).unref()
    },
    stop: () => clearTimeout(timer),
  }
}

/** Light calls come and go: there is always a moment between two. */
const BUSY_MS = 50
