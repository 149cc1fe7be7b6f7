/** Who may read the enriched feed, and copy the state, as the configuration has it. */
import { createFeedGate, type FeedGate } from '../../rpc/feed/gate.ts'
import { BOOTSTRAP_HEADER, type BootstrapDoor } from '../../rpc/http/upgrades.ts'
import type { BootstrapAnswer } from '../bootstrap/source.ts'
import { readToken } from '../config/token-file.ts'
import { StartError } from '../process/context.ts'

/** @param path of the token; undefined: none is needed @throws {StartError} */
export function feedGate(path: string | undefined): FeedGate {
  if (path === undefined) return createFeedGate(undefined)
  const read = readToken(path)
  if ('problem' in read) throw new StartError(read.problem)
  return createFeedGate(read.token)
}

/** The same of who copies the state; undefined: nobody may. @throws {StartError} */
export function bootstrapDoor(
  path: string | undefined,
  answer: ((url: string) => Promise<BootstrapAnswer>) | undefined,
): BootstrapDoor | undefined {
  if (path === undefined || answer === undefined) return undefined
  const read = readToken(path)
  if ('problem' in read) throw new StartError(read.problem)
  const gate = createFeedGate(read.token, { what: 'bootstrap', header: BOOTSTRAP_HEADER })
  return async (url, visitor) => gate(visitor) ?? answer(url ?? '')
}
