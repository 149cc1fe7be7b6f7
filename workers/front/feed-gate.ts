/** Who may read the enriched feed, as the configuration has it. */
import { createFeedGate, type FeedGate } from '../../rpc/feed/gate.ts'
import { readToken } from '../config/token-file.ts'
import { StartError } from '../process/context.ts'

/** @param path of the token; undefined: none is needed @throws {StartError} */
export function feedGate(path: string | undefined): FeedGate {
  if (path === undefined) return createFeedGate(undefined)
  const read = readToken(path)
  if ('problem' in read) throw new StartError(read.problem)
  return createFeedGate(read.token)
}
