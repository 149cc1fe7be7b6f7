/** A command as a process: it runs until it is done, or a signal or failure ends it. */
import { ChainError } from '../../../engine/chainspec/error.ts'
import { GenesisError } from '../../../engine/storage/blocks/genesis-import.ts'
import { isOutOfFiles, OPEN_FILES_ADVICE } from '../../../engine/storage/database/disk.ts'
import { DirectoryError } from '../../../engine/storage/directory/marker.ts'
import { storageFailure } from '../../../engine/storage/persistence/failure.ts'
import type { WorkingConfig } from '../../config/options.ts'
import { createLog, type Log, type LogOptions } from '../../observe/log.ts'
import { createReporter, lastWords, type Reporter } from '../../observe/reporter.ts'
import { StartError } from '../../process/context.ts'
import { createLifecycle, type Lifecycle, onSignals } from '../../process/lifecycle.ts'

export type Process = {
  readonly log: Log
  readonly reporter: Reporter
  readonly logOptions: LogOptions
  readonly lifecycle: Lifecycle
  /** Ends the process with status 1 and this line. */
  readonly fail: (message: string) => void
  /** Closes everything and ends the process; the default status is 0. */
  readonly end: (status?: number) => Promise<void>
}

export type ErrorKind = abstract new (...args: never[]) => Error

/**
 * Runs a command: `start` resolves when the command runs by itself, or calls `end` when it is done.
 * @param fails more errors whose messages name the cause and the remedy, beside those of the chain
 * and its directory
 */
export async function runProcess(
  { logLevel, logFormat }: Pick<WorkingConfig, 'logLevel' | 'logFormat'>,
  fails: readonly ErrorKind[],
  start: (process: Process) => Promise<void>,
): Promise<void> {
  const isPretty = (logFormat ?? (process.stderr.isTTY ? 'pretty' : 'json')) === 'pretty'
  const logOptions = { level: logLevel, isPretty }
  const log = createLog(logOptions)
  const reporter = createReporter(log)
  const { report } = reporter
  const lifecycle = createLifecycle({
    onProblem: (part, reason) => report('part_not_stopped', { part, reason }),
    onWait: (what, leftMs) => log.info({ leftMs }, `stopping, waits for ${what}`),
  })
  let status = 0
  const end = async (failure?: string): Promise<void> => {
    // Failures during the stop are consequences of the stop, so their text is dropped.
    if (failure !== undefined && !lifecycle.isStopping) {
      status = 1
      lastWords(advised(failure).replaceAll('\n', ' '))
    }
    await lifecycle.stop()
    process.exit(status)
  }
  onSignals(() => void end())
  process.on('uncaughtException', (error) => {
    report('uncaught_error', { err: error })
    const failure = storageFailure(error)
    void end(failure ?? `stopped by an unexpected error: ${error.message}`)
  })
  try {
    const fail = (message: string) => void end(message)
    const finish = (result = 0) => {
      status = result
      return end()
    }
    await start({ log, reporter, logOptions, lifecycle, fail, end: finish })
  } catch (error) {
    if (lifecycle.isStopping) return // The stop closed the parts during the start.
    if (!isExpected(error, fails)) report('start_failed', { err: error })
    await end(storageFailure(error) ?? (error as Error).message)
  }
}

const EXPECTED: readonly ErrorKind[] = [StartError, ChainError, DirectoryError, GenesisError]
const isExpected = (error: unknown, fails: readonly ErrorKind[]) =>
  [...EXPECTED, ...fails].some((kind) => error instanceof kind) || isOfSystem(error)

/** An error of the operating system, which names the system call and the file. */
const isOfSystem = (error: unknown) => error instanceof Error && 'syscall' in error

const advised = (failure: string): string =>
  isOutOfFiles(failure) && !failure.includes(OPEN_FILES_ADVICE)
    ? `${failure}; ${OPEN_FILES_ADVICE}`
    : failure
