/** How far a record is: by its time, with what its file has of the bytes that it may have. */
import { startProgress } from '../shared/progress.ts'

type Recording = {
  readonly seconds: number
  readonly megabytes: number
  /** Of the file. */
  readonly bytes: () => number
}

const BAR_MS = 500
/** A log has other lines too. */
const LINE_MS = 30_000

/** Gives what ends it. */
export function showRecording(
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
