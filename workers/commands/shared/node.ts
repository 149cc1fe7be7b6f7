/** A node as a process: it runs until something ends it. */
import { JournalError } from '../../../engine/storage/directory/journal.ts'
import type { NodeConfig } from '../../config/serving.ts'
import { KeystoreError } from '../../front/keystore.ts'
import type { Role } from '../../node/role.ts'
import { startNode } from '../../node/start.ts'
import { runProcess } from './process.ts'

/** @param role what its command makes of it */
export function runNode(config: NodeConfig, role: Role): Promise<void> {
  return runProcess(config, [JournalError, KeystoreError], async (process) => {
    await startNode({ config, ...process }, role)
  })
}
