/** Two nodes that have what is older: of the chain before this one, and of this one before its state was fetched. */
import type { Caller, Legacy } from '../dispatch/call.ts'
import { isBecause } from '../seam/errors.ts'
import type { PoolReply } from '../seam/executor.ts'
import type { OlderChain } from './legacy.ts'

/** What is below the first block of this chain is of the older one. A hash is looked for in this chain first. */
export const inTurn = (older: OlderChain, upstream: Legacy): Legacy => ({
  isRouted: (call, scope) => older.isRouted(call, scope) || upstream.isRouted(call, scope),
  callerOver(local) {
    const ofThisChain = upstream.callerOver(local)
    const ofBoth = older.callerOver(ofThisChain)
    const byHash: Caller = async (call, scope, isPinned) => {
      const reply = await ofThisChain(call, scope, isPinned)
      return isUnknown(reply) ? ofBoth(call, scope, isPinned) : reply
    }
    return (call, scope, isPinned) =>
      (older.isByHash(call, scope) ? byHash : ofBoth)(call, scope, isPinned)
  },
  get stats() {
    return older.stats
  },
})

const isUnknown = (reply: PoolReply): boolean =>
  'error' in reply
    ? isBecause(reply.error, 'pruned', 'input') || NO_TRANSACTION.test(reply.error.message)
    : 'result' in reply && reply.result === 'null'
/** Nodes refuse to trace a hash that they do not know, where lookups give null. */
const NO_TRANSACTION = /\btransaction\b.*\bnot found\b/i
