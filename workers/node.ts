/** A node as a process: it runs until a signal or a failure ends it, with one line that says why. */
import { ChainError } from '../engine/chainspec/error.ts'
import { ImportError } from '../engine/sources/import.ts'
import { storageFailure } from '../engine/storage/failure.ts'
import { GenesisError } from '../engine/storage/genesis-import.ts'
import { JournalError } from '../engine/storage/journal.ts'
import { DirectoryError } from '../engine/storage/marker.ts'
import { StateImportError } from '../engine/storage/state-import.ts'
import type { Config } from './config.ts'
import { StartError } from './context.ts'
import { KeystoreError } from './keystore.ts'
import { createLifecycle, onSignals } from './lifecycle.ts'
import { createLog } from './log.ts'
import { startNode } from './start.ts'

export async function runNode(config: Config): Promise<void> {
  const isTerminal = process.stderr.isTTY
  const logOptions = {
    level: config.logLevel,
    isPretty: (config.logFormat ?? (isTerminal ? 'pretty' : 'json')) === 'pretty',
  }
  const log = createLog(logOptions)
  const lifecycle = createLifecycle((problem) => log.warn(problem))
  let status = 0
  const end = async (failure?: string): Promise<void> => {
    // What goes wrong while everything is being closed is a consequence, not a reason.
    if (failure !== undefined && !lifecycle.isStopping) {
      status = 1
      process.stderr.write(`flashnode: ${failure.replaceAll('\n', ' ')}\n`)
    }
    await lifecycle.stop()
    process.exit(status)
  }
  onSignals(() => void end())
  process.on('uncaughtException', (error) => {
    log.error({ err: error }, 'an error that nothing handles')
    const failure = storageFailure(error)
    void end(failure ?? `stopped by an error that nothing handles: ${error.message}`)
  })
  try {
    if (config.command === 'import' || config.command === 'import-state')
      return await importThenEnd()
    await startNode({ config, log, logOptions, lifecycle, fail: (message) => void end(message) })
  } catch (error) {
    if (lifecycle.isStopping) return // Its parts were closed under it.
    if (!isExpected(error)) log.error({ err: error }, 'the start failed')
    await end(storageFailure(error) ?? (error as Error).message)
  }

  async function importThenEnd(): Promise<void> {
    const isStopped = () => lifecycle.isStopping
    const running =
      config.command === 'import'
        ? (await import('./import.ts')).runImport(config, { log, isTerminal, isStopped })
        : (await import('./import-state.ts')).runStateImport(config, { log, isTerminal, isStopped })
    // A signal waits for the block in hand and the closing of the directory.
    lifecycle.onStop('the import', () => running.catch(() => {}), IMPORT_STOP_MS)
    await running
    await end()
  }
}

const IMPORT_STOP_MS = 60_000

/** Their messages say what is wrong and what to do. */
const EXPECTED = [
  StartError,
  ChainError,
  DirectoryError,
  GenesisError,
  ImportError,
  JournalError,
  KeystoreError,
  StateImportError,
]
const isExpected = (error: unknown) => EXPECTED.some((kind) => error instanceof kind)
