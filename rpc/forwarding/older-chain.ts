/**
 * Forwards calls about blocks before this chain's first one to a node of the older chain. So one
 * URL serves the full history.
 */

import { quantity } from '../../engine/primitives/hex.ts'
import {
  concurrencyLimitReached,
  RpcError,
  type RpcErrorObject,
  responseTooLarge,
} from '../core/errors.ts'
import { type PoolReply, resultText } from '../core/executor.ts'
import type { Now } from '../core/timeout.ts'
import type { Call, Caller, Forwarding } from '../dispatch/call.ts'
import type { Provenance } from '../dispatch/provenance.ts'
import type { Scope } from '../dispatch/scope.ts'
import { asciiJson } from '../json/envelope.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import type { MethodLimits } from '../method/method.ts'
import { createForwardingClient, type ForwardingClient, type ForwardingReply } from './client.ts'
import { mergedLogs, rangeError } from './logs.ts'
import { type Route, routeOf } from './route.ts'

type ForwardingOptions = {
  readonly url: string
  /** Number of this chain's first block. */
  readonly cutoff: bigint
  readonly limits: MethodLimits
  readonly concurrencyLimits: OpenConcurrencyLimit
  readonly provenance?: Pick<Provenance, 'elsewhere'> | undefined
  readonly now: Now
}

/** Forwarding to the node of the chain before this one. */
export type OlderChain = Forwarding & {
  /** Tells whether the call is routed only because its hash is unknown here. */
  readonly isByHash: (call: Call, scope: Scope) => boolean
}

export function createForwarding(options: ForwardingOptions): OlderChain {
  const { cutoff, limits } = options
  const { request, stats } = createRequester(createForwardingClient(options), options)

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
      return where.to === 'forwarding' && where.isByHash
    },
    callerOver: (local) => (call, scope, isPinned) => {
      const where = route(call, scope)
      if (where.to === 'here') return local(call, scope, isPinned)
      /*
       * The hash was looked up in this view. The view is released, because the other node may be
       * slow and does not read it.
       */
      const { read } = scope
      if (where.to !== 'both') scope.release()
      try {
        call.found.decode(call.params, limits)
      } catch (error) {
        if (error instanceof RpcError) return refused(error)
        throw error
      }
      if (where.to === 'both')
        return both({ request, local, call, scope, isPinned, limits }, where.fromBlock, cutoff)
      return request(where, scope).then((reply) => {
        const settled = 'error' in reply ? reply : capped(asciiJson(reply.result), limits)
        return { ...settled, ...read }
      })
    },
    get stats() {
      return stats()
    },
  }
}

type SplitRequest = Pick<ReturnType<typeof createRequester>, 'request'> & {
  readonly local: Caller
  readonly call: Call
  readonly scope: Scope
  readonly isPinned: boolean
  readonly limits: MethodLimits
}

/**
 * Answers a log query over both chains. This chain's logs come first, so that a query that fails
 * here makes no request.
 */
async function both(
  { request, local, call, scope, isPinned, limits }: SplitRequest,
  fromBlock: bigint,
  cutoff: bigint,
): Promise<PoolReply> {
  const query = call.params[0] as object
  const later = [{ ...query, fromBlock: quantity(cutoff) }]
  const ours = await local({ ...call, params: later, text: asciiJson(later) }, scope, isPinned)
  scope.release()
  if ('stale' in ours) return ours
  const { snapshot, pending } = ours
  const read = { snapshot, pending }
  if ('error' in ours) return { error: rangeError(ours.error, { fromBlock, cutoff }), ...read }
  const earlier = { ...query, fromBlock: quantity(fromBlock), toBlock: quantity(cutoff - 1n) }
  const theirs = await request({ method: call.found.name, params: [earlier] }, scope)
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

/**
 * Sends requests to the other node, within the concurrency limits of a client and of all clients.
 */
function createRequester(
  client: ForwardingClient,
  {
    limits,
    concurrencyLimits: openConcurrencyLimit,
    provenance,
  }: Pick<ForwardingOptions, 'limits' | 'concurrencyLimits' | 'provenance'>,
) {
  const concurrencyLimits = openConcurrencyLimit('forwarding', {
    perClient: limits.legacyCallsPerClient,
    total: limits.legacyCallsTotal,
  })
  let calls = 0
  let errors = 0

  async function request(
    { method, params }: { readonly method: string; readonly params: readonly unknown[] },
    scope: Scope,
  ): Promise<ForwardingReply> {
    provenance?.elsewhere()
    const { address, signal } = scope.client
    const giveBack = concurrencyLimits.take(address)
    if (giveBack === undefined)
      return refused(
        concurrencyLimitReached(
          'too many concurrent calls to the older chain',
          limits.legacyCallsPerClient,
        ),
      )
    calls++
    try {
      const reply = await client.call(method, params, signal)
      if ('error' in reply) errors++
      return reply
    } finally {
      giveBack()
    }
  }

  return { request, stats: () => ({ calls, errors, inFlight: concurrencyLimits.ownCount }) }
}

const refused = (error: RpcError): { readonly error: RpcErrorObject } => ({
  error: error.toObject(),
})
