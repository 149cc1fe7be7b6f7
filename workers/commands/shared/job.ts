/** A command that ends by itself: an import. */
import type { WorkingConfig } from '../../config/options.ts'
import type { Log } from '../../observe/log.ts'
import { checkOpenFiles } from '../../process/open-files.ts'
import { type ErrorKind, runProcess } from './process.ts'

export type JobContext = {
  readonly log: Log
  readonly isTerminal: boolean
  /** A signal came: it ends when what is in hand is done. */
  readonly isStopped: () => boolean
}

const STOP_MS = 60_000

/** @param job `fails`: errors whose messages say what is wrong and what to do */
export function runJob(
  config: Pick<WorkingConfig, 'logLevel' | 'logFormat'>,
  job: {
    /** Returns the exit status. */
    readonly run: (context: JobContext) => Promise<number>
    readonly fails: readonly ErrorKind[]
  },
): Promise<void> {
  return runProcess(config, job.fails, async ({ log, lifecycle, end }) => {
    checkOpenFiles()
    const running = job.run({
      log,
      isTerminal: process.stderr.isTTY,
      isStopped: () => lifecycle.isStopping,
    })
    // A signal waits for the block in hand and the closing of the directory.
    lifecycle.onStop('the command', async () => void (await running.catch(() => {})), {
      extraMs: STOP_MS,
    })
    await end(await running)
  })
}
