/** Decides, by the configuration, who may read the enriched feed and who may copy the state. */
import { createFeedAccess, type FeedAccess } from '../../rpc/feed-server/access.ts'
import { BOOTSTRAP_HEADER, type BootstrapHandler } from '../../rpc/http/upgrades.ts'
import type { BootstrapResponse } from '../bootstrap/source.ts'
import { readToken } from '../config/token-file.ts'
import { StartError } from '../process/context.ts'

/**
 * Opens the check of feed readers.
 * @param path file of the token; undefined means that none is required
 * @throws {StartError}
 */
export function feedAccess(path: string | undefined): FeedAccess {
  if (path === undefined) return createFeedAccess(undefined)
  const read = readToken(path)
  if ('problem' in read) throw new StartError(read.problem)
  return createFeedAccess(read.token)
}

/**
 * Opens the handler of replicas that copy the state.
 * @returns undefined when the configuration allows no copies
 * @throws {StartError}
 */
export function bootstrapHandler(
  path: string | undefined,
  respond: ((url: string) => Promise<BootstrapResponse>) | undefined,
): BootstrapHandler | undefined {
  if (path === undefined || respond === undefined) return undefined
  const read = readToken(path)
  if ('problem' in read) throw new StartError(read.problem)
  const access = createFeedAccess(read.token, { what: 'bootstrap', header: BOOTSTRAP_HEADER })
  return async (url, visitor) => access(visitor) ?? respond(url ?? '')
}
