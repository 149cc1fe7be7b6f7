/** A node as a process that runs until a signal or a failure ends it. */
import { JournalError } from '../../../engine/storage/directory/journal.ts'
import type { NodeConfig } from '../../config/serving-options.ts'
import { KeystoreError } from '../../front/keystore.ts'
import type { Role } from '../../node/role.ts'
import { startNode } from '../../node/start.ts'
import { runProcess } from './process.ts'

export function runNode(config: NodeConfig, role: Role): Promise<void> {
  return runProcess(config, [JournalError, KeystoreError], async (process) => {
    await startNode({ config, ...process }, role)
  })
}
