/** Methods that describe this node and the limits of a caller. */

import { plainResult } from '../json/results.ts'
import { keyNameOf } from '../limiter/address.ts'
import { onLatest } from '../method/basis.ts'
import { frontMethod } from '../method/method.ts'
import { openrpc } from '../method/openrpc.ts'

export const rpc_discover = frontMethod({
  name: 'rpc.discover',
  summary: 'The OpenRPC document of this endpoint.',
  params: [],
  // The document never changes and takes a millisecond to build, so one build per block is enough.
  basis: onLatest,
  result: plainResult('OpenRPC document', { type: 'object' }),
  handler: ({ services, client, limits }) =>
    openrpc(services.methods[client.endpoint], {
      version: services.clientVersion,
      mode: services.mode,
      limits,
    }),
})

export const rpc_limits = frontMethod({
  name: 'rpc_limits',
  summary:
    'The points that the caller may spend in a second, the points spent including this call, and the cost of each call above one point.',
  params: [],
  result: plainResult('Limits', { title: 'Limits of the caller', type: 'object' }),
  async handler({ services, client }) {
    const { by, prices } = services.budgets
    const standing = await services.budgets.standing(client.address)
    const bucket = keyNameOf(client.address) === undefined ? 'address' : 'key'
    const costs = prices[client.endpoint]
    if (standing === undefined) return { by, bucket, limit: null, costs }
    const { limit, used, owed, resetMs } = standing
    const remaining = Math.max(0, limit - used)
    return { by, bucket, limit, used, remaining, owed, resetMs, costs }
  },
})
