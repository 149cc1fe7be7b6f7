/**
 * A call may go to two other nodes, that of the older chain and the upstream, in a certain order.
 */
import { expect, test } from 'vitest'
import type { PoolReply } from '../../../rpc/core/executor.ts'
import type { Call, Caller, Forwarding } from '../../../rpc/dispatch/call.ts'
import type { Scope } from '../../../rpc/dispatch/scope.ts'
import { inTurn } from '../../../rpc/forwarding/in-turn.ts'
import type { OlderChain } from '../../../rpc/forwarding/older-chain.ts'

const stats = { calls: 0, errors: 0, inFlight: 0 }
const NULL: PoolReply = { result: 'null' }

/**
 * Lists the requests in order for a call that the older chain takes this way; `isUpstreams` says
 * whether the upstream takes it.
 */
async function query(
  older: 'no' | 'by number' | 'by hash',
  isUpstreams: boolean,
  upstreamReply: PoolReply = { result: '"upstream"' },
) {
  const order: string[] = []
  const respondWith =
    (name: string, isOurs: boolean, reply: PoolReply): Forwarding['callerOver'] =>
    (local): Caller =>
    async (call, scope, isPinned) => {
      if (!isOurs) return local(call, scope, isPinned)
      order.push(name)
      return reply
    }
  const ofOlder: OlderChain = {
    stats,
    isRouted: () => older !== 'no',
    isByHash: () => older === 'by hash',
    callerOver: respondWith('older', older !== 'no', { result: '"older"' }),
  }
  const upstream: Forwarding = {
    stats,
    isRouted: () => isUpstreams,
    callerOver: respondWith('upstream', isUpstreams, upstreamReply),
  }
  const both = inTurn(ofOlder, upstream)
  const local: Caller = async () => {
    order.push('here')
    return NULL
  }
  const [call, scope] = [{} as Call, {} as Scope]
  const reply = await both.callerOver(local)(call, scope, false)
  return { order, reply, isRouted: both.isRouted(call, scope) }
}

test.each<[Parameters<typeof query>, readonly string[], PoolReply]>([
  [['no', false], ['here'], NULL],
  [['no', true], ['upstream'], { result: '"upstream"' }],
  [['by number', false], ['older'], { result: '"older"' }],
  [['by hash', true], ['upstream'], { result: '"upstream"' }],
  [['by hash', true, NULL], ['upstream', 'older'], { result: '"older"' }],
  [['by hash', false], ['here', 'older'], { result: '"older"' }],
  [
    ['by hash', true, { error: { code: -32_001, message: 'pruned' } }],
    ['upstream', 'older'],
    { result: '"older"' },
  ],
  [
    ['by hash', true, { error: { code: -32_000, message: 'transaction not found' } }],
    ['upstream', 'older'],
    { result: '"older"' },
  ],
  [
    ['by hash', true, { error: { code: 3, message: 'reverted' } }],
    ['upstream'],
    { error: { code: 3, message: 'reverted' } },
  ],
])('a call asks the nodes in the expected order: %j', async (of, order, reply) => {
  const done = await query(...of)
  expect(done.order).toEqual(order)
  expect(done.reply).toEqual(reply)
  expect(done.isRouted).toBe(of[0] !== 'no' || of[1])
})
