/**
 * Milliseconds in which the process ran. What a call may take is counted by them: while the process is stopped, or its machine is, nobody
 * works on a call, and who waited through it still has the time that was left.
 */

/** Shared by the threads of a process: plain data. */
export type ClockMemory = Int32Array<SharedArrayBuffer>
/** Monotonic milliseconds that all threads of the process agree on. */
export type Clock = () => number

/** For how long it has stood still, all together; and what the clock last said, as 32 bits of it. */
const [STOOD, LAST] = [0, 1] as const
const WORDS = 2
/** Shorter ones are a busy machine's everyday. */
const STILL_MS = 250
/** As often the clock is looked at where nobody has a call. */
const BEAT_MS = 50
/** 24 days: what it stood still beyond is time like any other. */
const MOST_STOOD_MS = 2 ** 31 - 1

/** performance.now has an origin per thread. */
export const processNow: Clock = () => performance.now() + ORIGIN_MS
/** Of this thread's performance.now, which is a third dearer as the system's clock in a bigint. */
const ORIGIN_MS = Number(process.hrtime.bigint()) / 1e6 - performance.now()

/**
 * The machine's, by the origin of this thread: for what is told of a process, which is as late as it looks when it was stopped, and for what
 * clients sent meanwhile.
 */
export const machineNow = (): number => performance.now()

export function createClockMemory(source: Clock = processNow): ClockMemory {
  const words = new Int32Array(new SharedArrayBuffer(4 * WORDS))
  words[LAST] = source()
  return words
}

/**
 * The clock of one thread. It has stood still where none of the threads that share the memory looked for a while: those that work on
 * calls look all the time, and one beats. Takes no lock, so no thread that is ended leaves one behind.
 */
export function openClock(words: ClockMemory, source: Clock = processNow): Clock {
  return () => {
    for (;;) {
      // Before the source: whoever comes back from a stop sees a time that is too late, never one that is too early.
      const stood = Atomics.load(words, STOOD)
      const now = source() - stood
      const last = Atomics.load(words, LAST)
      const tick = now | 0
      const gap = (tick - last) | 0
      if (gap <= STILL_MS || stood + gap > MOST_STOOD_MS) {
        if (gap > 0) Atomics.compareExchange(words, LAST, last, tick)
        return now
      }
      // Counted once: for the others it is another number by then.
      Atomics.compareExchange(words, STOOD, stood, stood + gap)
    }
  }
}

/** Looks now and then, so that a process with nothing to do does not pass for one that stands still. @returns ends it */
export function beat(clock: Clock): () => void {
  const timer = setInterval(clock, BEAT_MS).unref()
  return () => clearInterval(timer)
}
