/**
 * Calls about blocks before the first one of this chain: they are of an older chain, whose own node answers them. One URL so serves all of
 * the history.
 */

import { quantity } from '../../engine/primitives/hex.ts'
import type { Call, Caller, Legacy } from '../dispatch/call.ts'
import type { Scope } from '../dispatch/scope.ts'
import { asciiJson } from '../json/envelope.ts'
import type { MethodLimits } from '../method/method.ts'
import { capReached, RpcError, type RpcErrorObject, responseTooLarge } from '../seam/errors.ts'
import { type PoolReply, resultText } from '../seam/executor.ts'
import type { Now } from '../seam/patience.ts'
import type { Provenance } from '../seam/provenance.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'
import { createLegacyClient, type LegacyClient, type LegacyReply } from './client.ts'
import { mergedLogs, rangeError } from './logs.ts'
import { type Route, routeOf } from './route.ts'

type LegacyOptions = {
  readonly url: string
  /** Number of this chain's first block. */
  readonly cutoff: bigint
  readonly limits: MethodLimits
  readonly caps: OpenCaps
  readonly provenance?: Pick<Provenance, 'elsewhere'> | undefined
  readonly now: Now
}

/** The node of the chain before this one. */
export type OlderChain = Legacy & {
  /** It is asked for nothing but a hash that is not known here. */
  readonly isByHash: (call: Call, scope: Scope) => boolean
}

export function createLegacy(options: LegacyOptions): OlderChain {
  const { cutoff, limits } = options
  const { ask, stats } = createAsking(createLegacyClient(options), options)

  const route = (call: Call, scope: Scope): Route =>
    routeOf(
      call,
      { cutoff, limits },
      {
        view: () => scope.view,
        isExpected: (hash) => scope.services.transactions.isExpected(hash),
      },
    )

  return {
    isRouted: (call, scope) => route(call, scope).to !== 'here',
    isByHash(call, scope) {
      const where = route(call, scope)
      return where.to === 'legacy' && where.isByHash
    },
    callerOver: (local) => (call, scope, isPinned) => {
      const where = route(call, scope)
      if (where.to === 'here') return local(call, scope, isPinned)
      // A hash was looked up in this view. The other node takes its time, and reads none.
      const { read } = scope
      if (where.to !== 'both') scope.release()
      try {
        call.found.decode(call.params, limits)
      } catch (error) {
        if (error instanceof RpcError) return refused(error)
        throw error
      }
      if (where.to === 'both')
        return both({ ask, local, call, scope, isPinned, limits }, where.fromBlock, cutoff)
      return ask(where, scope).then((reply) => {
        const settled = 'error' in reply ? reply : capped(asciiJson(reply.result), limits)
        return { ...settled, ...read }
      })
    },
    get stats() {
      return stats()
    },
  }
}

type Asked = Pick<ReturnType<typeof createAsking>, 'ask'> & {
  readonly local: Caller
  readonly call: Call
  readonly scope: Scope
  readonly isPinned: boolean
  readonly limits: MethodLimits
}

/** Logs of both chains. This one's come first, so that a query that cannot be answered asks nobody. */
async function both(
  { ask, local, call, scope, isPinned, limits }: Asked,
  fromBlock: bigint,
  cutoff: bigint,
): Promise<PoolReply> {
  const query = call.params[0] as object
  const later = [{ ...query, fromBlock: quantity(cutoff) }]
  const ours = await local({ ...call, params: later, text: asciiJson(later) }, scope, isPinned)
  scope.release()
  if ('stale' in ours) return ours
  const { record, pending } = ours
  const read = { record, pending }
  if ('error' in ours) return { error: rangeError(ours.error, { fromBlock, cutoff }), ...read }
  const earlier = { ...query, fromBlock: quantity(fromBlock), toBlock: quantity(cutoff - 1n) }
  const theirs = await ask({ method: call.found.name, params: [earlier] }, scope)
  if ('error' in theirs) return { ...theirs, ...read }
  try {
    const merged = mergedLogs(theirs.result, resultText(ours), { fromBlock, cutoff })
    return { ...capped(merged, limits), ...read }
  } catch (error) {
    if (error instanceof RpcError) return refused(error)
    throw error
  }
}

function capped(result: string, { responseBytes }: MethodLimits): PoolReply {
  if (result.length <= responseBytes) return { result }
  return refused(responseTooLarge(result.length, responseBytes))
}

/** Asks the other node, as often at a time as a client and all may. */
function createAsking(
  client: LegacyClient,
  { limits, caps: openCaps, provenance }: Pick<LegacyOptions, 'limits' | 'caps' | 'provenance'>,
) {
  const caps = openCaps('legacy', {
    perClient: limits.legacyCallsPerClient,
    total: limits.legacyCallsTotal,
  })
  let calls = 0
  let errors = 0

  async function ask(
    { method, params }: { readonly method: string; readonly params: readonly unknown[] },
    scope: Scope,
  ): Promise<LegacyReply> {
    provenance?.elsewhere()
    const { address, signal } = scope.client
    const giveBack = caps.take(address)
    if (giveBack === undefined)
      return refused(capReached('too many calls of the legacy chain', limits.legacyCallsPerClient))
    calls++
    try {
      const reply = await client.call(method, params, signal)
      if ('error' in reply) errors++
      return reply
    } finally {
      giveBack()
    }
  }

  return { ask, stats: () => ({ calls, errors, inFlight: caps.here }) }
}

const refused = (error: RpcError): { readonly error: RpcErrorObject } => ({
  error: error.toObject(),
})
