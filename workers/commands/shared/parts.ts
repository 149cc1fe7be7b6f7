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
  let shown: { readonly part: string; readonly progress: Progress } | undefined
  const stop = () => {
    shown?.progress.stop()
    shown = undefined
  }
  return {
    update({ part, done, total }) {
      if (now() - started < QUIET_MS || now() - told < EVERY_MS) return
      told = now()
      if (shown?.part !== part) {
        stop()
        shown = { part, progress: startProgress(total, { ...context, now }) }
      }
      shown.progress.update(done, `${part}, ${done.toLocaleString('en-US')} done`)
    },
    stop,
  }
}
