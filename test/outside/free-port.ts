/** Ports for servers that have no zero that takes a free one, as the admin port. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Free when it resolves. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
