/** What the parts of a node share while it starts and runs. */
import type { Config } from './config.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Log, LogOptions } from './log.ts'

export type NodeContext = {
  readonly config: Config
  readonly log: Log
  readonly logOptions: LogOptions
  readonly lifecycle: Lifecycle
  /** Ends the process with status 1 and this line. */
  readonly fail: (message: string) => void
}

/** The message says what is wrong and what to do. */
export class StartError extends Error {
  override name = 'StartError'
}
