/** Loads what verified calls need after the start, so that the start does not wait for it. */
import type { NodeContext } from '../process/context.ts'
import type { Pool } from './pool.ts'

/** Delay after the start; it ends before memory counts as warm. */
const PREPARE_MS = 5_000

export function prepareLater(
  { config, lifecycle }: Pick<NodeContext, 'config' | 'lifecycle'>,
  pool: Pick<Pool, 'prepare'>,
): void {
  if (config.verifySample === 0) return
  const timer = setTimeout(pool.prepare, PREPARE_MS).unref()
  lifecycle.onStop('the preparation of verified calls', () => clearTimeout(timer))
}
