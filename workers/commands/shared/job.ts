/** A command that ends by itself, such as an import. */
import type { WorkingConfig } from '../../config/options.ts'
import type { Log } from '../../observe/log.ts'
import { checkOpenFiles } from '../../process/open-files.ts'
import { type ErrorKind, runProcess } from './process.ts'

export type JobContext = {
  readonly log: Log
  readonly isTerminal: boolean
  /** True after a signal: the job ends when its current step is done. */
  readonly isStopped: () => boolean
}

const STOP_MS = 60_000

/** @param job `fails` lists errors whose messages name the cause and the remedy */
export function runJob(
  config: Pick<WorkingConfig, 'logLevel' | 'logFormat'>,
  job: {
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
    // A stop waits for the current block and for closing the directory.
    lifecycle.onStop('the command', async () => void (await running.catch(() => {})), {
      extraMs: STOP_MS,
    })
    await end(await running)
  })
}
