/** How far a command with several parts has come: nothing in the first two seconds, then a bar or a line for the part in hand. */
import type { JobContext } from './job.ts'
import { type Progress, startProgress } from './progress.ts'

export interface Parts {
  /** `total`: undefined where it is not known. */
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
  let told = started
  let newest: Step | undefined
  let shown: { readonly part: string; readonly progress: Progress } | undefined
  const clear = () => {
    shown?.progress.stop()
    shown = undefined
  }
  const show = ({ part, done, total }: Step) => {
    told = now()
    if (shown?.part !== part) {
      clear()
      shown = { part, progress: startProgress(total, { ...context, now }) }
    }
    shown.progress.update(done, `${part}, ${done.toLocaleString('en-US')} done`)
  }
  // A part that waits for something says nothing itself.
  const timer = setInterval(() => {
    if (newest !== undefined && now() - started >= QUIET_MS) show(newest)
  }, QUIET_MS)
  timer.unref()
  return {
    update(step) {
      newest = step
      if (now() - started >= QUIET_MS && now() - told >= EVERY_MS) show(step)
    },
    stop() {
      clearInterval(timer)
      newest = undefined
      clear()
    },
  }
}
