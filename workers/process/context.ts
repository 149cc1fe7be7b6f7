/** What the parts of a node share while it starts and runs. */
import type { NodeConfig } from '../config/serving.ts'
import type { Log, LogOptions } from '../observe/log.ts'
import type { Reporter } from '../observe/reporter.ts'
import type { Lifecycle } from './lifecycle.ts'

export type NodeContext = {
  readonly config: NodeConfig
  /** For what is as it should be. */
  readonly log: Pick<Log, 'debug' | 'info' | 'isLevelEnabled'>
  readonly reporter: Reporter
  readonly logOptions: LogOptions
  readonly lifecycle: Lifecycle
  /** Ends the process with status 1 and this line. */
  readonly fail: (message: string) => void
}

/** The message says what is wrong and what to do. */
export class StartError extends Error {
  override name = 'StartError'
}
