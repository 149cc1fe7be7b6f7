/** Context that the parts of a node share while it starts and runs. */
import type { NodeConfig } from '../config/serving-options.ts'
import type { Log, LogOptions } from '../observe/log.ts'
import type { Reporter } from '../observe/reporter.ts'
import type { Lifecycle } from './lifecycle.ts'

export type NodeContext = {
  readonly config: NodeConfig
  /** Log for regular events; problems go to the reporter. */
  readonly log: Pick<Log, 'debug' | 'info' | 'isLevelEnabled'>
  readonly reporter: Reporter
  readonly logOptions: LogOptions
  readonly lifecycle: Lifecycle
  /** Ends the process with status 1 and this line. */
  readonly fail: (message: string) => void
}

/** An error whose message names the cause and the remedy. */
export class StartError extends Error {
  override name = 'StartError'
}
