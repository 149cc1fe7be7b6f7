/**
 * Progress of a command with several parts: after two seconds, a bar or a log line for the current
 * part.
 */
import type { JobContext } from './job.ts'
import { type Progress, startProgress } from './progress.ts'

export interface Parts {
  update(step: Step): void
  stop(): void
}
export type Step = {
  readonly part: string
  readonly done: number
  readonly total: number | undefined
}

const QUIET_MS = 2_000
const EVERY_MS = 200

export function startParts(context: Pick<JobContext, 'log' | 'isTerminal'>): Parts {
  const now = () => performance.now()
  const started = now()
  let reportedAt = started
  let newest: Step | undefined
  let current: { readonly part: string; readonly progress: Progress } | undefined
  const clear = () => {
    current?.progress.stop()
    current = undefined
  }
  const display = ({ part, done, total }: Step) => {
    reportedAt = now()
    if (current?.part !== part) {
      clear()
      current = { part, progress: startProgress(total, { ...context, now }) }
    }
    current.progress.update(done, `${part}, ${done.toLocaleString('en-US')} done`)
  }
  // The timer displays a part that waits and therefore sends no updates.
  const timer = setInterval(() => {
    if (newest !== undefined && now() - started >= QUIET_MS) display(newest)
  }, QUIET_MS)
  timer.unref()
  return {
    update(step) {
      newest = step
      if (now() - started >= QUIET_MS && now() - reportedAt >= EVERY_MS) display(step)
    },
    stop() {
      clearInterval(timer)
      newest = undefined
      clear()
    },
  }
}
