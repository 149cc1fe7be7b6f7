/** What this node serves, as a document. */

import { plainResult } from '../json/results.ts'
import { onLatest } from '../method/basis.ts'
import { frontMethod } from '../method/method.ts'
import { openrpc } from '../method/openrpc.ts'

export const rpc_discover = frontMethod({
  name: 'rpc.discover',
  summary: 'The OpenRPC document of this endpoint.',
  params: [],
  // It never changes, and takes a millisecond to make: once in a block is enough, also for a batch of it.
  basis: onLatest,
  result: plainResult('OpenRPC document', { type: 'object' }),
  handler: ({ services, client, limits }) =>
    openrpc(services.methods[client.endpoint], {
      version: services.clientVersion,
      mode: services.mode,
      limits,
    }),
})
