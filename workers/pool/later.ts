/** What a front and its pool load when they have started, and nobody waits for it. */
import type { NodeContext } from '../process/context.ts'
import type { OpenedPool } from './open.ts'

/** What verified calls need is loaded before one comes, and before memory counts as warm. */
const PREPARE_MS = 5_000
/** Who asks at once is answered first. */
const NEAR_MS = 2_000

/** `openNear`: undefined where this thread runs no short calls. */
export function loadLater(
  { config, lifecycle }: Pick<NodeContext, 'config' | 'lifecycle'>,
  {
    pool,
    openNear,
  }: Pick<OpenedPool, 'pool'> & { readonly openNear: OpenedPool['openNear'] | undefined },
): void {
  const later: NodeJS.Timeout[] = []
  if (openNear !== undefined) later.push(setTimeout(openNear, NEAR_MS).unref())
  if (config.verifySample > 0) later.push(setTimeout(pool.prepare, PREPARE_MS).unref())
  lifecycle.onStop('what is loaded later', () => later.forEach(clearTimeout))
}
