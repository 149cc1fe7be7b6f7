/** What this node serves, as a document. */
import { frontMethod } from '../method.ts'
import { openrpc } from '../openrpc.ts'
import { plainResult } from '../results.ts'

export const rpc_discover = frontMethod({
  name: 'rpc.discover',
  summary: 'The OpenRPC document of this endpoint.',
  params: [],
  result: plainResult('OpenRPC document', { type: 'object' }),
  handler: ({ services, client }) =>
    openrpc(services.methods[client.endpoint], services.clientVersion),
})
