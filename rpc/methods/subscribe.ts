/** Subscriptions over WebSocket. */

import { logQuery } from '../events/log-filter.ts'
import type { SubscriptionKind } from '../events/subscriptions.ts'
import { booleanResult, stringResult } from '../json/results.ts'
import { boolean, type Codec, SchemaError, text } from '../json/schema.ts'
import { frontMethod, optional, param } from '../method/method.ts'
import {
  invalidParams,
  missingValue,
  notificationsUnsupported,
  subscriptionNotFound,
  unknownSubscription,
} from '../seam/errors.ts'
import type { Limits } from '../seam/limits.ts'

const LISTED = ['standard', 'flashblocks'] as const
/** Its meaning depends on the kind. */
const anything: Codec<unknown> = {
  decode: (wire) => wire,
  encode: (value) => value,
  schema: { title: 'Filter, or whether transactions come whole' },
}

export const eth_subscribe = frontMethod({
  name: 'eth_subscribe',
  summary:
    'Subscribes to newHeads, logs, newPendingTransactions or syncing; canonical on both endpoints.',
  listed: LISTED,
  hasEffect: true,
  params: [optional('Kind', anything), optional('Options', anything)],
  result: stringResult('Subscription identifier'),
  handler({ services, client, afterAnswer, limits }, kind, options) {
    if (client.notify === undefined) throw notificationsUnsupported()
    if (typeof kind !== 'string')
      throw invalidParams('expected subscription name as first argument')
    const { id, start } = services.subscriptions.add(client, kindOf(kind, options, limits))
    afterAnswer(start)
    return id
  },
})

/** @throws {RpcError} */
function kindOf(kind: string, options: unknown, limits: Limits): SubscriptionKind {
  switch (kind) {
    case 'newHeads':
    case 'syncing':
      return { kind }
    case 'newPendingTransactions':
      return { kind, isFull: decode(boolean, options ?? false, limits) }
    case 'logs':
      if (options === undefined || options === null) throw missingValue(1)
      return { kind, pattern: decode(logQuery, options, limits) }
    default:
      throw unknownSubscription(kind)
  }
}

function decode<T>(codec: Codec<T>, wire: unknown, limits: Limits): T {
  try {
    return codec.decode(wire, limits)
  } catch (error) {
    throw error instanceof SchemaError
      ? invalidParams(`invalid argument 1: ${error.describe()}`)
      : error
  }
}

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
