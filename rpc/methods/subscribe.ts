/** Methods of subscriptions over WebSocket. */

import { invalidParams, notificationsUnsupported, subscriptionNotFound } from '../core/errors.ts'
import { booleanResult, stringResult } from '../json/results.ts'
import { type Codec, text } from '../json/schema.ts'
import { frontMethod, optional, param } from '../method/method.ts'
import { isSince, subscriptionOf } from './shared/subscription.ts'

const LISTED = ['standard', 'flashblocks'] as const
/** The meaning of the value depends on the kind. */
const anything: Codec<unknown> = {
  decode: (wire) => wire,
  encode: (value) => value,
  takesNull: true,
  schema: { title: 'Filter, true for full transactions, or {"since":"number:index"}' },
}
/** Points of a subscription with `since`, whose missed messages are encoded for it alone. */
const REPLAY_POINTS = 10

export const eth_subscribe = frontMethod({
  name: 'eth_subscribe',
  summary:
    'Subscribes to newHeads, logs, newPendingTransactions, syncing (all canonical) or transactionReceipts; on the flashblocks endpoint also to flashblocks, newFlashblocks, pendingLogs or newFlashblockTransactions.',
  listed: LISTED,
  hasEffect: true,
  params: [optional('Kind', anything), optional('Options', anything), optional('Since', anything)],
  cost: (params) => (params.some(isSince) ? REPLAY_POINTS : 1),
  result: stringResult('Subscription identifier'),
  handler({ services, client, afterResponse, limits }, kind, options, since) {
    if (client.notify === undefined) throw notificationsUnsupported()
    if (typeof kind !== 'string')
      throw invalidParams('expected subscription name as first argument')
    const what = { params: [options, since], endpoint: client.endpoint, limits }
    const { id, start } = services.subscriptions.add(client, subscriptionOf(kind, what))
    afterResponse(start)
    return id
  },
})

export const eth_unsubscribe = frontMethod({
  name: 'eth_unsubscribe',
  summary: 'Ends a subscription of this connection.',
  listed: LISTED,
  hasEffect: true,
  params: [param('Subscription identifier', text('Subscription identifier', 100, 'rpc.ID'))],
  result: booleanResult('Success'),
  handler({ services, client }, id) {
    if (!services.subscriptions.remove(client, id)) throw subscriptionNotFound()
    return true
  },
})
