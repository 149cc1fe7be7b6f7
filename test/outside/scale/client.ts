/** These clients have their own addresses, of which 127.0.0.0/8 has many. */
import { once } from 'node:events'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { WebSocket } from 'ws'
import { bodyOf, post as send } from '../../kit/client.ts'

export const agent = new Agent({ keepAlive: true, maxSockets: 4 })

export type Said = {
  readonly status: number
  readonly result?: unknown
  readonly text: string
  /** The header X-Flashblock. */
  readonly flashblockId: string
}

/**
 * Sends a body.
 * @param body text of a request
 * @throws {Error} the error with which the connection ends
 */
export async function post(
  url: string,
  body: string,
  from: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Said> {
  const response = await send(url, body, {
    agent,
    localAddress: from,
    headers,
    timeoutMs: RESPONSE_MS,
  })
  const { status, text } = response
  const flashblockId = String(response.headers['x-flashblock'] ?? '')
  const result = status === 200 ? JSON.parse(text).result : undefined
  return { status, text, flashblockId, result }
}
/** The timeout is longer than the response of a replica that is stopped for five seconds. */
const RESPONSE_MS = 120_000

/** Reads the client's rate limit from `rpc_limits`, which depends on the range of its address. */
export async function limitOf(
  url: string,
  from: string,
  more: Readonly<Record<string, string>> = {},
): Promise<number | undefined> {
  const { result } = await post(url, bodyOf('rpc_limits'), from, more)
  return (result as { readonly limit?: number } | undefined)?.limit
}

export async function openWebSocket(url: string, from: string): Promise<WebSocket> {
  const socket = new WebSocket(url.replace('http', 'ws'), { localAddress: from })
  await once(socket, 'open')
  return socket
}
/** Sends a request and gives the next message, whatever the message is. */
export async function request(socket: WebSocket, body: string): Promise<string> {
  const said = once(socket, 'message')
  socket.send(body)
  return String((await said)[0])
}

/** Sends bytes and gives the whole response until the node ends the connection. */
export async function talk(
  port: number,
  bytes: string | Uint8Array,
  from: string,
): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from })
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  socket.on('connect', () => socket.write(bytes))
  await once(socket, 'close')
  return text
}
