/**
 * Two nodes take turns behind one address, and the second one receives its flashblocks late. A
 * client reads through the address.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocket, WebSocketServer } from 'ws'
import { type Reply, sendRequest } from '../../kit/batch.ts'
import { compare, type FlashblockId, parseFlashblockId, textOf } from './flashblock-id.ts'

export type Balanced = { readonly url: string; stop(): void }

/** Forwards each request unchanged to the next node in turn, and its response back. */
export async function startBalancer(nodes: readonly string[]): Promise<Balanced> {
  let turn = 0
  const server = createServer((incoming, outgoing) => {
    const node = nodes[turn++ % nodes.length]!
    const { method, headers } = incoming
    const options = { method, headers: { ...headers, host: new URL(node).host } }
    const forwarded = request(`${node}${incoming.url}`, options, (response: IncomingMessage) => {
      outgoing.writeHead(response.statusCode!, response.headers)
      response.pipe(outgoing)
    })
    forwarded.once('error', (error) => outgoing.destroy(error))
    incoming.pipe(forwarded)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, stop: () => void server.close() }
}

/** Forwards every frame of a feed with a delay. */
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
  /** Responses from an older flashblock than an earlier response. */
  backwards: number
  /** Refusals that report the lag. */
  lag: number
  readonly faults: string[]
}

/**
 * A client reads one response after the other.
 * @param isRequesting whether the client states how new the view must be
 */
export async function walk(
  url: string,
  { reads, isRequesting }: { readonly reads: number; readonly isRequesting: boolean },
): Promise<Walk> {
  const seen: Walk = { reads: 0, backwards: 0, lag: 0, faults: [] }
  let newest: FlashblockId | undefined
  let transactions = 0
  for (let tries = 0; seen.reads < reads && tries < 2 * reads; tries++) {
    const requested = newest === undefined ? '' : textOf(newest)
    const headers = isRequesting && requested !== '' ? { 'x-min-flashblock': requested } : {}
    const { flashblockId: text, replies } = await sendRequest(
      url,
      [
        ['eth_blockNumber', ['pending']],
        ['eth_getBlockTransactionCountByNumber', ['pending']],
      ],
      { headers },
    )
    const flashblockId = parseFlashblockId(text)
    const error = replies[0]!.error
    if (error !== undefined || flashblockId === undefined) {
      if (error?.code === -32_001) seen.lag++
      else seen.faults.push(`${requested}: ${JSON.stringify(replies[0])} at ${text}`)
      continue
    }
    seen.reads++
    const [height, count] = replies.map((reply: Reply) => Number(reply.result)) as [number, number]
    if (height !== flashblockId.number) seen.faults.push(`height ${height} at ${text}`)
    const isBack = newest !== undefined && compare(flashblockId, newest) < 0
    const isFewer = newest?.number === flashblockId.number && count < transactions
    if (isBack || isFewer) seen.backwards++
    if (newest === undefined || compare(flashblockId, newest) >= 0) {
      newest = flashblockId
      transactions = count
    }
  }
  return seen
}
