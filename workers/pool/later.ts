/** Loads what verified calls need when the node has started, so that no start waits for it. */
import type { NodeContext } from '../process/context.ts'
import type { Pool } from './pool.ts'

/** It is loaded before memory counts as warm. */
const PREPARE_MS = 5_000

export function prepareLater(
  { config, lifecycle }: Pick<NodeContext, 'config' | 'lifecycle'>,
  pool: Pick<Pool, 'prepare'>,
): void {
  if (config.verifySample === 0) return
  const timer = setTimeout(pool.prepare, PREPARE_MS).unref()
  lifecycle.onStop('what verified calls need', () => clearTimeout(timer))
}
