/** The end of the process: parts are closed in the reverse order of their opening, each within its time. */

export interface Lifecycle {
  /** Closed before everything that was opened earlier. */
  onStop(name: string, stop: () => void | Promise<void>, withinMs?: number): void
  /** Runs once, however often it is asked for. Never rejects: what fails or hangs is reported and passed over. */
  stop(): Promise<void>
  readonly isStopping: boolean
}

const DEFAULT_MS = 5_000

/** @param onProblem a part failed while it stopped, or took too long */
export function createLifecycle(onProblem: (part: string, reason: string) => void): Lifecycle {
  const parts: {
    readonly name: string
    readonly stop: () => void | Promise<void>
    readonly withinMs: number
  }[] = []
  let stopping: Promise<void> | undefined

  async function stopAll(): Promise<void> {
    for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
      const { name, stop, withinMs } = part
      try {
        await within(withinMs, stop)
      } catch (error) {
        onProblem(name, (error as Error).message)
      }
    }
  }
  return {
    onStop: (name, stop, withinMs = DEFAULT_MS) => void parts.push({ name, stop, withinMs }),
    stop: () => {
      stopping ??= stopAll()
      return stopping
    },
    get isStopping() {
      return stopping !== undefined
    },
  }
}

async function within(ms: number, action: () => void | Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms`)), ms)
  })
  try {
    await Promise.race([action(), late])
  } finally {
    clearTimeout(timer)
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
