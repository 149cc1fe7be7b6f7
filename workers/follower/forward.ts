/**
 * Forwards calls that another node answers: the sequencer takes transactions, and upstreams have
 * older data.
 */
import type { Budget } from '../../engine/sources/lazy/budget.ts'
import { pay } from '../../engine/sources/lazy/paced-upstream.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import {
  outsideText,
  type RpcFault,
  UpstreamError,
  withoutAddresses,
} from '../../engine/sources/upstream/error.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import { createConcurrencyLimit } from '../../rpc/core/concurrency-limit.ts'
import { broken, concurrencyLimitReached, overloaded } from '../../rpc/core/errors.ts'
import type { Forwarded, ToFollower } from '../thread/follower-messages.ts'

export type Forward = ToFollower & { readonly type: 'forward' }
export type Forwarder = (call: Forward) => Promise<Forwarded>

type ForwardOptions = {
  readonly limits: Pick<UpstreamLimits, 'forwardMs' | 'forwardsPerClient' | 'forwardsTotal'>
  /** Transactions go to the upstreams if this is undefined. */
  readonly sequencer: Upstream | undefined
  /** Budget for calls of upstreams; if undefined, they are not counted. */
  readonly budget: Budget | undefined
  /** Usable upstreams, the best first. */
  readonly upstreams: () => readonly Upstream[]
}

/**
 * Makes a forwarder, which never rejects. Errors of other nodes are returned unchanged, except for
 * the addresses of nodes.
 */
export function createForwarder(options: ForwardOptions): Forwarder {
  const { limits, sequencer, upstreams, budget } = options
  const concurrencyLimits = createConcurrencyLimit({
    perClient: limits.forwardsPerClient,
    total: limits.forwardsTotal,
  })

  async function request(call: Forward): Promise<Forwarded> {
    const isSend = call.to === 'sequencer'
    const targets = isSend && sequencer !== undefined ? [sequencer] : upstreams()
    let last: Forwarded = { error: broken('no upstream answers').toObject() }
    for (const target of targets) {
      const response = await requestOne(target, call)
      if (!('failure' in response)) return response
      const { kind, retryAfterMs } = response.failure
      const message = outsideText(response.failure, nameOf(target))
      if (kind === 'limited') last = { error: overloaded(message, retryAfterMs).toObject() }
      else if (kind === 'unreachable' || kind === 'foreign')
        last = { error: broken(message).toObject() }
      // The target may have taken the transaction, so no other node gets it.
      else if (isSend || kind === 'silent') return { silent: message }
      else last = { error: broken(message).toObject() }
    }
    return last
  }

  async function requestOne(
    target: Upstream,
    { method, params, to, client }: Forward,
  ): Promise<Forwarded | { readonly failure: UpstreamError }> {
    try {
      const list = JSON.parse(params) as readonly unknown[]
      const what = to === 'sequencer' ? 'send' : 'call'
      if (budget !== undefined && target !== sequencer) await pay(budget, 1, { what, client })
      const result = await target.call(method, list, { withinMs: limits.forwardMs })
      return { result: JSON.stringify(result) }
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error
      return error.kind === 'refused' && error.fault !== undefined
        ? { error: openFault(error.fault, nameOf(target)) }
        : { failure: error }
    }
  }

  const nameOf = (target: Upstream) => (target === sequencer ? 'the sequencer' : 'the upstream')

  return async (call) => {
    const giveBack = concurrencyLimits.take(call.client)
    if (giveBack === undefined)
      return {
        error: concurrencyLimitReached(
          'too many forwarded calls',
          limits.forwardsPerClient,
        ).toObject(),
      }
    try {
      return await request(call)
    } finally {
      giveBack()
    }
  }
}

const openFault = (fault: RpcFault, who: string): RpcFault => ({
  ...fault,
  message: withoutAddresses(fault.message, who),
})
