/** A TCP connection to a node that can be cut. Unlike a relay of frames it forwards all bytes. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type Cuttable = {
  readonly port: number
  /** The number of connections so far. */
  readonly connections: number
  /** Ends all connections without a close message; new ones are accepted. */
  cut(): void
  /** Cuts all connections, and accepts no new one until `open`. */
  shut(): void
  open(): void
  close(): void
}

export async function cuttable(target: number): Promise<Cuttable> {
  const sockets = new Set<Socket>()
  let connections = 0
  let isShut = false
  const server = createServer((client) => {
    if (isShut) {
      client.destroy()
      return
    }
    connections++
    const node = connect(target, '127.0.0.1')
    for (const [from, to] of [
      [client, node],
      [node, client],
    ] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.once('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    cut,
    shut() {
      isShut = true
      cut()
    },
    open() {
      isShut = false
    },
    close() {
      cut()
      server.close()
    },
  }
}
