/** What this node serves, as a document. */

import { plainResult } from '../json/results.ts'
import { frontMethod } from '../method/method.ts'
import { openrpc } from '../method/openrpc.ts'

export const rpc_discover = frontMethod({
  name: 'rpc.discover',
  summary: 'The OpenRPC document of this endpoint.',
  params: [],
  result: plainResult('OpenRPC document', { type: 'object' }),
  handler: ({ services, client, limits }) =>
    openrpc(services.methods[client.endpoint], { version: services.clientVersion, limits }),
})
