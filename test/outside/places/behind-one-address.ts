/** Two nodes behind one address, in turns, the second one late with its flashblocks: what a client reads there. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocket, WebSocketServer } from 'ws'
import { ask, type Reply } from '../../kit/batch.ts'
import { compare, type Place, parsePlace, textOf } from './place.ts'

export type Balanced = { readonly url: string; stop(): void }

/** Requests go to the next of the nodes, as they came; the answers too. */
export async function startBalancer(nodes: readonly string[]): Promise<Balanced> {
  let turn = 0
  const server = createServer((incoming, outgoing) => {
    const node = nodes[turn++ % nodes.length]!
    const { method, headers } = incoming
    const options = { method, headers: { ...headers, host: new URL(node).host } }
    const forwarded = request(`${node}${incoming.url}`, options, (answer: IncomingMessage) => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    })
    forwarded.once('error', (error) => outgoing.destroy(error))
    incoming.pipe(forwarded)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, stop: () => void server.close() }
}

/** Every frame of a feed, later. */
export async function startLateFeed(target: string, lateMs: number): Promise<Balanced> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false })
  await once(server, 'listening')
  const source = new WebSocket(target, { perMessageDeflate: false })
  await once(source, 'open')
  source.on('message', (data: Buffer, binary) =>
    setTimeout(() => {
      for (const client of server.clients) client.send(data, { binary })
    }, lateMs),
  )
  const { port } = server.address() as AddressInfo
  return {
    url: `ws://127.0.0.1:${port}/feed`,
    stop() {
      source.close()
      server.close()
    },
  }
}

export type Walk = {
  reads: number
  /** Answers of an older place than an answer before. */
  backwards: number
  /** Refusals that say so. */
  behind: number
  readonly faults: string[]
}

/**
 * A client that reads one thing after the other.
 * @param isAsking whether it says how new the view has to be
 */
export async function walk(
  url: string,
  { reads, isAsking }: { readonly reads: number; readonly isAsking: boolean },
): Promise<Walk> {
  const seen: Walk = { reads: 0, backwards: 0, behind: 0, faults: [] }
  let newest: Place | undefined
  let transactions = 0
  for (let tries = 0; seen.reads < reads && tries < 2 * reads; tries++) {
    const asked = newest === undefined ? '' : textOf(newest)
    const headers = isAsking && asked !== '' ? { 'x-min-flashblock': asked } : {}
    const { place: text, replies } = await ask(
      url,
      [
        ['eth_blockNumber', ['pending']],
        ['eth_getBlockTransactionCountByNumber', ['pending']],
      ],
      { headers },
    )
    const place = parsePlace(text)
    const error = replies[0]!.error
    if (error !== undefined || place === undefined) {
      if (error?.code === -32_001) seen.behind++
      else seen.faults.push(`${asked}: ${JSON.stringify(replies[0])} at ${text}`)
      continue
    }
    seen.reads++
    const [height, count] = replies.map((reply: Reply) => Number(reply.result)) as [number, number]
    if (height !== place.number) seen.faults.push(`height ${height} at ${text}`)
    const isBack = newest !== undefined && compare(place, newest) < 0
    const isFewer = newest?.number === place.number && count < transactions
    if (isBack || isFewer) seen.backwards++
    if (newest === undefined || compare(place, newest) >= 0) {
      newest = place
      transactions = count
    }
  }
  return seen
}
