/**
 * A proxy between a new replica and the node that it copies counts requests and cuts connections.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Middle {
  readonly url: string
  /** Counts the complete responses for each range of rows, by the range's query. */
  readonly sent: ReadonlyMap<string, number>
  /** Gives the bytes of all responses. */
  readonly bytes: () => number
  /** Resolves after this many more responses with rows. */
  after(responses: number): Promise<void>
  /** Ends every open connection in the middle of its response. */
  cut(): void
  /** Changes one byte of the next response. */
  spoil(): void
  close(): void
}

export async function startMiddle(target: URL): Promise<Middle> {
  const sent = new Map<string, number>()
  const waiting = new Set<{ left: number; readonly done: () => void }>()
  let bytes = 0
  let isCutting = false
  let isSpoiling = false
  const server = createServer((incoming, response) => {
    const onSent = () => {
      const query = new URL(incoming.url!, target).searchParams
      if (query.get('part') !== 'rows') return
      const name = `${query.get('column')} ${query.get('from')}`
      sent.set(name, (sent.get(name) ?? 0) + 1)
      for (const one of waiting) if (--one.left <= 0 && waiting.delete(one)) one.done()
    }
    forward(incoming, response, {
      target,
      onSent,
      onBytes: (full) => {
        bytes += full.length
        if (isSpoiling) full[full.length >> 1]! ^= 1
        isSpoiling = false
        if (!isCutting) return false
        isCutting = false
        return true
      },
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent,
    bytes: () => bytes,
    after: (responses) =>
      new Promise((done) => {
        waiting.add({ left: responses, done })
      }),
    cut() {
      isCutting = true
    },
    spoil() {
      isSpoiling = true
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

function forward(
  incoming: IncomingMessage,
  response: ServerResponse,
  of: {
    readonly target: URL
    readonly onSent: () => void
    /** True: the connection is cut here. */
    readonly onBytes: (full: Buffer) => boolean
  },
): void {
  const { hostname: host, port } = of.target
  const { url: path, method, headers } = incoming
  const requested = request({ host, port, path, method, headers, agent: false }, (reply) => {
    const pieces: Buffer[] = []
    reply.on('data', (piece: Buffer) => pieces.push(piece))
    reply.once('error', () => response.destroy())
    reply.once('end', () => {
      const full = Buffer.concat(pieces)
      response.writeHead(reply.statusCode!, reply.headers)
      if (of.onBytes(full)) {
        response.write(full.subarray(0, full.length >> 1), () => response.destroy())
        return
      }
      if (reply.statusCode === 200) of.onSent()
      response.end(full)
    })
  })
  requested.once('error', () => response.destroy())
  requested.end()
}
