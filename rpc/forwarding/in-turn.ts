/**
 * Combines two nodes with older history: one for the chain before this one, one for this chain's
 * blocks before its state.
 */

import { isBecause } from '../core/errors.ts'
import type { PoolReply } from '../core/executor.ts'
import type { Caller, Forwarding } from '../dispatch/call.ts'
import type { OlderChain } from './older-chain.ts'

/**
 * Blocks below this chain's first block belong to the older chain. A hash is looked up in this
 * chain first.
 */
export const inTurn = (older: OlderChain, upstream: Forwarding): Forwarding => ({
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
/** Nodes refuse to trace an unknown hash, while lookups return null. */
const NO_TRANSACTION = /\btransaction\b.*\bnot found\b/i
