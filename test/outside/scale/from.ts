/**
 * This proxy gives an address to a client that cannot choose its own. Data sent to the port reaches
 * HAProxy from that address.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type From = { readonly url: string; close(): void }

export async function from(address: string, port: number): Promise<From> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const other = connect({ port, host: '127.0.0.1', localAddress: address })
    for (const [one, to] of [
      [client, other],
      [other, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => {})
      one.once('close', () => {
        sockets.delete(one)
        to.destroy()
      })
      one.pipe(to)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
