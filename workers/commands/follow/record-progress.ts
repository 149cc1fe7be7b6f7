/** Progress of a recording: its time, and the bytes in its file. */
import { startProgress } from '../shared/progress.ts'

type Recording = {
  readonly seconds: number
  readonly megabytes: number
  readonly bytes: () => number
}

const BAR_MS = 500
/** The log gets a line only this often, because it has other lines too. */
const LINE_MS = 30_000

/** Starts the display. @returns a function that ends it */
export function displayRecording(
  { seconds, megabytes, bytes }: Recording,
  context: Omit<Parameters<typeof startProgress>[1], 'now'>,
): () => void {
  const now = () => performance.now()
  const started = now()
  const progress = startProgress(1_000 * seconds, { ...context, now })
  const timer = setInterval(
    () => {
      const taken = (bytes() / 2 ** 20).toFixed(1)
      const passedMs = Math.min(now() - started, 1_000 * seconds)
      progress.update(passedMs, `${taken} of ${megabytes} MB are recorded`)
    },
    context.isTerminal ? BAR_MS : LINE_MS,
  )
  timer.unref()
  return () => {
    clearInterval(timer)
    progress.stop()
  }
}
