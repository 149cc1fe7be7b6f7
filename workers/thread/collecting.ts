/**
 * Collects the heaps of idle pool threads after long work. V8 does not collect a heap on which
 * nobody allocates. So a thread that has traced a block retains hundreds of megabytes until its
 * next long call.
 */

export interface Collecting {
  /** Reports the processor time of a worker that a call has taken. */
  spent(cpuMs: number): void
  stop(): void
}

/** A call that takes less leaves little garbage. */
const LONG_MS = 20
/** Delay after the last long call. */
const QUIET_MS = 2_000

/**
 * Creates the collection of idle threads.
 * @param isIdle tells whether no call waits or runs
 */
export function createCollecting(collect: () => void, isIdle: () => boolean): Collecting {
  let timer: NodeJS.Timeout | undefined
  function check(): void {
    timer = isIdle() ? undefined : setTimeout(check, BUSY_MS).unref()
    if (timer === undefined) collect()
  }
  return {
    spent(cpuMs) {
      if (cpuMs < LONG_MS) return
      clearTimeout(timer)
      timer = setTimeout(check, QUIET_MS).unref()
    },
    stop: () => clearTimeout(timer),
  }
}

/** Retry interval while the pool is busy; between light calls there is always an idle moment. */
const BUSY_MS = 50
