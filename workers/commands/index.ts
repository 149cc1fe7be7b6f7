/** The commands, in the order of the help: a new one is a folder here, and a line. */
import type { Known } from '../config/config.ts'
import { dev } from './dev/command.ts'
import { follow } from './follow/command.ts'
import { importBlocks } from './import/command.ts'
import { importState } from './import-state/command.ts'
import { migrate } from './migrate/command.ts'
import { serve } from './serve/command.ts'

export const COMMANDS: Known = {
  commands: [dev, serve, follow, migrate, importBlocks, importState],
  notYet: [],
}
