/** Stands between a new replica and the node that it copies: counts what is asked, and cuts connections. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Middle {
  readonly url: string
  /** How often each range of rows was sent whole, by its query. */
  readonly sent: ReadonlyMap<string, number>
  /** Bytes of all answers. */
  readonly bytes: () => number
  /** Resolves when so many answers with rows more have come. */
  after(answers: number): Promise<void>
  /** Every connection that is open ends in the middle of what it says. */
  cut(): void
  /** A byte of the next answer is another. */
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
    passOn(incoming, response, {
      target,
      onSent,
      onBytes: (whole) => {
        bytes += whole.length
        if (isSpoiling) whole[whole.length >> 1]! ^= 1
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
    after: (answers) =>
      new Promise((done) => {
        waiting.add({ left: answers, done })
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

function passOn(
  incoming: IncomingMessage,
  response: ServerResponse,
  of: {
    readonly target: URL
    readonly onSent: () => void
    /** True: the connection is cut here. */
    readonly onBytes: (whole: Buffer) => boolean
  },
): void {
  const { hostname: host, port } = of.target
  const { url: path, method, headers } = incoming
  const asked = request({ host, port, path, method, headers, agent: false }, (answer) => {
    const pieces: Buffer[] = []
    answer.on('data', (piece: Buffer) => pieces.push(piece))
    answer.once('error', () => response.destroy())
    answer.once('end', () => {
      const whole = Buffer.concat(pieces)
      response.writeHead(answer.statusCode!, answer.headers)
      if (of.onBytes(whole)) {
        response.write(whole.subarray(0, whole.length >> 1), () => response.destroy())
        return
      }
      if (answer.statusCode === 200) of.onSent()
      response.end(whole)
    })
  })
  asked.once('error', () => response.destroy())
  asked.end()
}
