/** The leaders of a node that follows: how what they tell is applied. */
import { readToken } from '../../config/token-file.ts'
import { type LeadersThread, startLeaders } from '../../leaders/start.ts'
import type { Role, SourceLink } from '../../node/role.ts'
import { StartError } from '../../process/context.ts'
import type { FollowConfig } from './flags.ts'

/** Kept for their end, whatever the parts before it take. */
const STOP_MS = 200

export const applyingOf = ({
  apply,
  applyMs,
  verifyShare,
  applyHeldDiffs: heldDiffs,
  applyHeldBytes: heldDiffBytes,
}: FollowConfig): Role['applying'] =>
  apply.length === 0 ? undefined : { applyMs, verifyShare, heldDiffs, heldDiffBytes }

/** undefined: there are none. @throws {StartError} */
export function startApplying(config: FollowConfig, link: SourceLink): LeadersThread | undefined {
  const { apply: urls, applyTokenFile, applyMessageBytes, applyHeldDiffs } = config
  if (urls.length === 0) return undefined
  const read = applyTokenFile === undefined ? undefined : readToken(applyTokenFile)
  if (read !== undefined && 'problem' in read) throw new StartError(read.problem)
  const leaders = startLeaders({
    ...{ urls, token: read?.token, newPort: link.newLeaders, onEnded: link.onEnded },
    blockTimeMs: link.data.chain.blockTime * 1_000,
    messageBytes: applyMessageBytes,
    heldDiffs: applyHeldDiffs,
  })
  link.context.lifecycle.onStop('the leaders', leaders.stop, { leastMs: STOP_MS })
  return leaders
}
