/** Calls that another node answers: the sequencer takes transactions, an upstream knows what is not kept here. */
import type { Budget } from '../../engine/sources/lazy/budget.ts'
import { pay } from '../../engine/sources/lazy/pace.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import {
  outsideText,
  type RpcFault,
  UpstreamError,
  withoutAddresses,
} from '../../engine/sources/upstream/error.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import { createCaps } from '../../rpc/seam/caps.ts'
import { broken, capReached, overloaded } from '../../rpc/seam/errors.ts'
import type { Forwarded, ToFollower } from '../thread/follower-messages.ts'

export type Forward = ToFollower & { readonly type: 'forward' }
export type Forwarder = (call: Forward) => Promise<Forwarded>

type ForwardOptions = {
  readonly limits: Pick<UpstreamLimits, 'forwardMs' | 'forwardsPerClient' | 'forwardsTotal'>
  /** undefined: transactions go to the upstream too. */
  readonly sequencer: Upstream | undefined
  /** What calls of upstreams are paid from; undefined: they are not counted. */
  readonly budget: Budget | undefined
  /** Those that may be asked now, the best first. */
  readonly upstreams: () => readonly Upstream[]
}

/** It never rejects. An error of the other node is passed on as it came, without addresses of nodes. */
export function createForwarder(options: ForwardOptions): Forwarder {
  const { limits, sequencer, upstreams, budget } = options
  const caps = createCaps({ perClient: limits.forwardsPerClient, total: limits.forwardsTotal })

  async function ask(call: Forward): Promise<Forwarded> {
    const isSend = call.to === 'sequencer'
    const targets = isSend && sequencer !== undefined ? [sequencer] : upstreams()
    let last: Forwarded = { error: broken('no upstream answers').toObject() }
    for (const target of targets) {
      const answer = await askOne(target, call)
      if (!('failure' in answer)) return answer
      const { kind, retryAfterMs } = answer.failure
      const message = outsideText(answer.failure, nameOf(target))
      if (kind === 'limited') last = { error: overloaded(message, retryAfterMs).toObject() }
      else if (kind === 'unreachable' || kind === 'foreign')
        last = { error: broken(message).toObject() }
      // It may have taken the transaction: nobody else is asked to.
      else if (isSend || kind === 'silent') return { silent: message }
      else last = { error: broken(message).toObject() }
    }
    return last
  }

  async function askOne(
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
    const giveBack = caps.take(call.client)
    if (giveBack === undefined)
      return {
        error: capReached('too many forwarded calls', limits.forwardsPerClient).toObject(),
      }
    try {
      return await ask(call)
    } finally {
      giveBack()
    }
  }
}

const openFault = (fault: RpcFault, who: string): RpcFault => ({
  ...fault,
  message: withoutAddresses(fault.message, who),
})
