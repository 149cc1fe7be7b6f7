/** A carrier transports an honest client's request to the node, and the response back. */
import { once } from 'node:events'
import type { Agent } from 'node:http'
import { WebSocket } from 'ws'
import { bodyOf, post as send } from '../../kit/client.ts'

export type Carrier =
  | { readonly agent: Agent; readonly localAddress: string }
  | { readonly webSocket: OpenWebSocket }
export type OpenWebSocket = { request(body: string, id: number): Promise<string> }
type CarriedRequest = {
  readonly path: string
  readonly method: string
  readonly params: readonly unknown[]
  readonly carrier: Carrier
}

const TIMEOUT_MS = 60_000
/** The pause between two attempts to reconnect. */
const RECONNECT_MS = 500

/**
 * Makes a function that sends one call; a WebSocket has its own path.
 * @throws {Error} the failure, with the carrier
 */
export function requester(url: string): (request: CarriedRequest) => Promise<unknown> {
  let nextId = 1
  return async ({ path, method, params, carrier }) => {
    const id = nextId++
    const body = bodyOf(method, params, id)
    const text =
      'webSocket' in carrier
        ? await carrier.webSocket.request(body, id)
        : await post(`${url}${path}`, body, carrier)
    const { result, error } = JSON.parse(text) as {
      result?: unknown
      error?: { code: number; message: string }
    }
    if (error !== undefined) throw new Error(`${error.code} ${error.message}`)
    return result
  }
}

async function post(
  url: string,
  body: string,
  from: { readonly agent: Agent; readonly localAddress: string },
): Promise<string> {
  const { status, text } = await send(url, body, { ...from, timeoutMs: TIMEOUT_MS })
  if (status === 200) return text
  throw new Error(`HTTP ${status} ${text.slice(0, 80)}`)
}

/** Opens a WebSocket that reconnects when it is closed; open requests fail. */
export async function openWebSocket(url: string, localAddress: string): Promise<OpenWebSocket> {
  const waiting = new Map<number, { resolve(text: string): void; reject(error: Error): void }>()
  let socket: WebSocket
  function connect() {
    socket = new WebSocket(url, { localAddress, handshakeTimeout: TIMEOUT_MS })
    socket.on('error', () => {})
    socket.on('message', (data) => {
      const text = String(data)
      waiting.get((JSON.parse(text) as { id: number }).id)?.resolve(text)
    })
    socket.on('close', (code) => {
      for (const { reject } of waiting.values()) reject(new Error(`WebSocket closed with ${code}`))
      setTimeout(connect, RECONNECT_MS)
    })
  }
  connect()
  await once(socket!, 'open')
  return {
    request: (body, id) =>
      new Promise<string>((resolve, reject) => {
        const late = () => waiting.get(id)?.reject(new Error('no answer over WebSocket'))
        const timer = setTimeout(late, TIMEOUT_MS)
        const over =
          <T>(settle: (value: T) => void) =>
          (value: T) => {
            clearTimeout(timer)
            waiting.delete(id)
            settle(value)
          }
        waiting.set(id, { resolve: over(resolve), reject: over(reject) })
        if (socket.readyState === WebSocket.OPEN) socket.send(body)
        else waiting.get(id)!.reject(new Error('the WebSocket is closed'))
      }),
  }
}
