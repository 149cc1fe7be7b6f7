/**
 * The end of the process: parts close in the reverse order of their opening, within one deadline.
 */

export interface Lifecycle {
  /** Registers a part, which closes before all earlier ones. */
  onStop(name: string, stop: Stop, options?: StopOptions): void
  /**
   * Runs once and never rejects: a part that fails or hangs is reported and skipped.
   * @param withinMs time for all parts together
   */
  stop(withinMs?: number): Promise<void>
  readonly isStopping: boolean
}
/**
 * @param withinMs time for the part's own waits, a little less than the time until it is skipped
 */
export type Stop = (withinMs: number) => void | Promise<void>
export type StopOptions = {
  /** Time that is reserved for the part, however long earlier parts take. */
  readonly minMs?: number
  /** Extends the deadline by a wait that the operator has configured. */
  readonly extraMs?: number
  /** Says what the part is waiting for. */
  readonly about?: () => string
}

/** `docker stop` kills after ten seconds, and the process needs time to end. */
export const STOP_MS = 8_000
/** Time that is reserved for closing clients' connections, however long requests take. */
export const SERVER_MS = 700
/** A wait for one part is reported after this time, and again after each further interval. */
const REPORT_MS = 1_000
const SPARE_MS = 100

export type StopClock = {
  /** Milliseconds. */
  readonly now: () => number
  /** @returns a function that cancels the call */
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
  /** Called if a part failed while it stopped, or took too long. */
  readonly onProblem: (part: string, reason: string) => void
  /** Called while the stop waits for a part, for at most `leftMs`. */
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
      const reserved = parts.reduce((sum, { options }) => sum + (options.minMs ?? 0), 0)
      const leftMs = Math.max(0, until - clock.now() - reserved)
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
    const end = clock.later(ms, () =>
      reject(new Error(`it did not stop within ${Math.round(ms)} ms`)),
    )
    let quiet = clock.later(REPORT_MS, report)
    function report(): void {
      const detail = about?.() ?? ''
      onWait(detail === '' ? name : `${name}: ${detail}`, Math.round(until - clock.now()))
      quiet = clock.later(REPORT_MS, report)
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

/** The first signal requests a stop, the second ends the process at once. */
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
