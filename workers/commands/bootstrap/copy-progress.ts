/** Progress of a copy: a bar for each part on a terminal, occasional log lines elsewhere. */
import type { JobContext } from '../shared/job.ts'
import { type Progress, startProgress } from '../shared/progress.ts'

export interface CopyProgress {
  /** @param share fraction of the part that is done, from 0 to 1 */
  fetched(part: string, share: number, rows: number): void
  made(accounts: number): void
  persisted(number: number, tip: number): void
  stop(): void
}

/** Number of steps of a bar for a part that reports only its share. */
const TOTAL = 65_536

export function startCopyProgress(context: Pick<JobContext, 'log' | 'isTerminal'>): CopyProgress {
  const now = () => performance.now()
  let current: { readonly part: string; readonly progress: Progress; rows: number } | undefined
  const stop = () => {
    current?.progress.stop()
    current = undefined
  }
  const of = (part: string, total: number | undefined) => {
    if (current?.part === part) return current
    stop()
    current = { part, progress: startProgress(total, { ...context, now }), rows: 0 }
    return current
  }
  return {
    fetched(part, share, rows) {
      const bar = of(part, TOTAL)
      bar.rows += rows
      bar.progress.update(share * TOTAL, `${part}, ${bar.rows.toLocaleString('en-US')}`)
    },
    made: (accounts) =>
      of('state', undefined).progress.update(
        accounts,
        `state tries, ${accounts.toLocaleString('en-US')} accounts`,
      ),
    persisted: (number, tip) =>
      of('newer blocks', undefined).progress.update(number, `newer blocks, ${number} of ${tip}`),
    stop,
  }
}
