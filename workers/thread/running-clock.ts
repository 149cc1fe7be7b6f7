/**
 * Milliseconds in which the process ran; the timeouts of calls use them. While the process or its
 * machine is stopped, nobody works on a call. So a caller who waited through the stop has the rest
 * of the timeout left.
 */

/** Shared by the threads of a process. */
export type ClockMemory = Int32Array<SharedArrayBuffer>
/** Monotonic milliseconds that all threads of the process agree on. */
export type Clock = () => number

/** Total time stopped, and the low 32 bits of the last time read. */
const [STOOD, LAST] = [0, 1] as const
const WORDS = 2
/** Shorter gaps are usual on a busy machine. */
const STILL_MS = 250
/** Interval at which the clock is read when there are no calls. */
const BEAT_MS = 50
/** 24 days; time stopped beyond that counts as running time. */
const MAX_STOOD_MS = 2 ** 31 - 1

/** Process-wide time, because performance.now has a different origin in each thread. */
export const processNow: Clock = () => performance.now() + ORIGIN_MS
/** Origin of this thread's performance.now; `hrtime.bigint` takes a third longer to read. */
const ORIGIN_MS = Number(process.hrtime.bigint()) / 1e6 - performance.now()

/**
 * Time of the machine, by this thread's origin, which includes stops. It serves reports about the
 * process, and what clients sent during a stop.
 */
export const machineNow = (): number => performance.now()

export function createClockMemory(source: Clock = processNow): ClockMemory {
  const words = new Int32Array(new SharedArrayBuffer(4 * WORDS))
  words[LAST] = source()
  return words
}

/**
 * Opens the clock of one thread. The process was stopped when no thread that shares the memory read
 * the clock for STILL_MS. Busy threads read it all the time, and one thread beats. The clock takes
 * no lock, so an ended thread leaves none behind.
 */
export function openClock(words: ClockMemory, source: Clock = processNow): Clock {
  return () => {
    for (;;) {
      // This read comes before the source, so that a thread after a stop may get a late time.
      const stood = Atomics.load(words, STOOD)
      const now = source() - stood
      const last = Atomics.load(words, LAST)
      const tick = now | 0
      const gap = (tick - last) | 0
      if (gap <= STILL_MS || stood + gap > MAX_STOOD_MS) {
        if (gap > 0) Atomics.compareExchange(words, LAST, last, tick)
        return now
      }
      // The gap is counted once, because the exchange fails for the other threads.
      Atomics.compareExchange(words, STOOD, stood, stood + gap)
    }
  }
}

/**
 * Reads the clock regularly, so that an idle process does not look stopped.
 * @returns ends the reads
 */
export function beat(clock: Clock): () => void {
  const timer = setInterval(clock, BEAT_MS).unref()
  return () => clearInterval(timer)
}
