/** Two other nodes, of the chain before this one and of this one: who is asked for what, and in which order. */
import { expect, test } from 'vitest'
import type { Call, Caller, Legacy } from '../../../rpc/dispatch/call.ts'
import type { Scope } from '../../../rpc/dispatch/scope.ts'
import { inTurn } from '../../../rpc/legacy/in-turn.ts'
import type { OlderChain } from '../../../rpc/legacy/legacy.ts'
import type { PoolReply } from '../../../rpc/seam/executor.ts'

const stats = { calls: 0, errors: 0, inFlight: 0 }
const NULL: PoolReply = { result: 'null' }

/** What is asked in order, of a call that the older chain takes so, and the upstream if `isUpstreams`. */
async function asked(
  older: 'no' | 'by number' | 'by hash',
  isUpstreams: boolean,
  upstreamSays: PoolReply = { result: '"upstream"' },
) {
  const order: string[] = []
  const answering =
    (name: string, isOurs: boolean, reply: PoolReply): Legacy['callerOver'] =>
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
    callerOver: answering('older', older !== 'no', { result: '"older"' }),
  }
  const upstream: Legacy = {
    stats,
    isRouted: () => isUpstreams,
    callerOver: answering('upstream', isUpstreams, upstreamSays),
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

test.each<[Parameters<typeof asked>, readonly string[], PoolReply]>([
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
])('%j', async (of, order, reply) => {
  const done = await asked(...of)
  expect(done.order).toEqual(order)
  expect(done.reply).toEqual(reply)
  expect(done.isRouted).toBe(of[0] !== 'no' || of[1])
})
