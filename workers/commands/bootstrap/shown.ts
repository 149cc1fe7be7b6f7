/** How far a copy has come: a bar for each part on a terminal, a line now and then elsewhere. */
import type { JobContext } from '../shared/job.ts'
import { type Progress, startProgress } from '../shared/progress.ts'

export interface Shown {
  /** `share`: of the part, 0 to 1. */
  fetched(part: string, share: number, rows: number): void
  made(accounts: number): void
  folded(number: number, tip: number): void
  stop(): void
}

/** Steps of a bar whose end is known by its share alone. */
const WHOLE = 65_536

export function startShown(context: Pick<JobContext, 'log' | 'isTerminal'>): Shown {
  const now = () => performance.now()
  let shown: { readonly part: string; readonly progress: Progress; rows: number } | undefined
  const stop = () => {
    shown?.progress.stop()
    shown = undefined
  }
  const of = (part: string, total: number | undefined) => {
    if (shown?.part === part) return shown
    stop()
    shown = { part, progress: startProgress(total, { ...context, now }), rows: 0 }
    return shown
  }
  return {
    fetched(part, share, rows) {
      const bar = of(part, WHOLE)
      bar.rows += rows
      bar.progress.update(share * WHOLE, `${part}, ${bar.rows.toLocaleString('en-US')}`)
    },
    made: (accounts) =>
      of('state', undefined).progress.update(
        accounts,
        `the tries, ${accounts.toLocaleString('en-US')} accounts`,
      ),
    folded: (number, tip) =>
      of('newer blocks', undefined).progress.update(number, `newer blocks, ${number} of ${tip}`),
    stop,
  }
}
