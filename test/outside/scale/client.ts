/** Clients of addresses of their own: 127.0.0.0/8 has many. */
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
  readonly place: string
}

/** @param body text of a request. @throws what the connection ends with */
export async function post(
  url: string,
  body: string,
  from: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Said> {
  const answer = await send(url, body, {
    ...{ agent, localAddress: from, headers, timeoutMs: ANSWER_MS },
  })
  const { status, text } = answer
  const place = String(answer.headers['x-flashblock'] ?? '')
  const result = status === 200 ? JSON.parse(text).result : undefined
  return { status, text, place, result }
}
/** Longer than one who is stopped for five seconds takes. */
const ANSWER_MS = 20_000

/** What the node takes this client for: the rate of its range, which `rpc_limits` says. */
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
/** The first message that is not the answer to the request. */
export async function ask(socket: WebSocket, body: string): Promise<string> {
  const said = once(socket, 'message')
  socket.send(body)
  return String((await said)[0])
}

/** All that comes back until the node ends the connection. */
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
