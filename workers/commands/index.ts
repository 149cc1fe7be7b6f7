/** The commands in the order of the help. A new command is a folder here and a line below. */
import type { Known } from '../config/config.ts'
import { bench } from './bench/command.ts'
import { bootstrap } from './bootstrap/command.ts'
import { compare } from './compare/command.ts'
import { dev } from './dev/command.ts'
import { doctor } from './doctor/command.ts'
import { follow } from './follow/command.ts'
import { record } from './follow/record.ts'
import { importBlocks } from './import/command.ts'
import { importState } from './import-state/command.ts'
import { migrate } from './migrate/command.ts'
import { openrpc } from './openrpc/command.ts'
import { replay } from './replay/command.ts'
import { serve } from './serve/command.ts'
import { verify } from './verify/command.ts'

export const COMMANDS: Known = {
  commands: [
    ...([dev, follow, serve] as const),
    ...([importBlocks, importState, bootstrap, verify, migrate] as const),
    ...([doctor, compare, bench, record, replay, openrpc] as const),
  ],
  notYet: [],
}
