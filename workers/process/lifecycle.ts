/** The end of the process: parts are closed in the reverse order of their opening, all of them by one deadline. */

export interface Lifecycle {
  /** Closed before everything that was opened earlier. */
  onStop(name: string, stop: Stop, options?: StopOptions): void
  /**
   * Runs once, however often it is asked for. Never rejects: what fails or hangs is reported and passed over.
   * @param withinMs for all parts together
   */
  stop(withinMs?: number): Promise<void>
  readonly isStopping: boolean
}
/** @param withinMs a wait of its own ends by then, with something to spare until the part is passed over */
export type Stop = (withinMs: number) => void | Promise<void>
export type StopOptions = {
  /** What is kept for it, however long the parts before it take. */
  readonly leastMs?: number
  /** Moves the deadline: a wait that the operator has asked for. */
  readonly extraMs?: number
  /** What it waits for at the moment. */
  readonly about?: () => string
}

/** `docker stop` kills after ten seconds, and the process has to end as well. */
export const STOP_MS = 8_000
/** Kept for closing the connections of clients, whatever the requests in flight take. */
export const SERVER_MS = 700
/** After so long of waiting for one part, and as often again, it is said. */
const TELL_MS = 1_000
const SPARE_MS = 100

export type StopClock = {
  /** Milliseconds. */
  readonly now: () => number
  /** @returns takes it back */
  readonly later: (ms: number, run: () => void) => () => void
}
const MACHINE: StopClock = {
  now: () => performance.now(),
  later(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

export type LifecycleOptions = {
  /** A part failed while it stopped, or took too long. */
  readonly onProblem: (part: string, reason: string) => void
  /** The stop waits for this, at most so long. */
  readonly onWait?: (what: string, leftMs: number) => void
  readonly clock?: StopClock
}

type Part = { readonly name: string; readonly stop: Stop; readonly options: StopOptions }

export function createLifecycle({
  onProblem,
  onWait = () => {},
  clock = MACHINE,
}: LifecycleOptions): Lifecycle {
  const parts: Part[] = []
  let stopping: Promise<void> | undefined

  async function stopAll(withinMs: number): Promise<void> {
    let until = clock.now() + withinMs
    for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
      until += part.options.extraMs ?? 0
      const kept = parts.reduce((sum, { options }) => sum + (options.leastMs ?? 0), 0)
      const leftMs = Math.max(0, until - clock.now() - kept)
      try {
        await within(part, leftMs)
      } catch (error) {
        onProblem(part.name, (error as Error).message)
      }
    }
  }

  async function within({ name, stop, options: { about } }: Part, ms: number): Promise<void> {
    const { promise: late, reject } = Promise.withResolvers<never>()
    const until = clock.now() + ms
    const end = clock.later(ms, () => reject(new Error(`not within ${Math.round(ms)} ms`)))
    let quiet = clock.later(TELL_MS, tell)
    function tell(): void {
      const detail = about?.() ?? ''
      onWait(detail === '' ? name : `${name}: ${detail}`, Math.round(until - clock.now()))
      quiet = clock.later(TELL_MS, tell)
    }
    try {
      await Promise.race([stop(Math.max(0, ms - SPARE_MS)), late])
    } finally {
      end()
      quiet()
    }
  }

  return {
    onStop: (name, stop, options = {}) => void parts.push({ name, stop, options }),
    stop(withinMs = STOP_MS) {
      stopping ??= stopAll(withinMs)
      return stopping
    },
    get isStopping() {
      return stopping !== undefined
    },
  }
}

/** The first signal asks to stop, the second ends the process at once. */
export function onSignals(stop: () => void): void {
  let count = 0
  for (const [signal, number] of [
    ['SIGINT', 2],
    ['SIGTERM', 15],
  ] as const)
    process.on(signal, () => {
      if (++count === 1) stop()
      else process.exit(128 + number)
    })
}
