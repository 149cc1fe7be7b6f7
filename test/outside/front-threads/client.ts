/**
 * In these clients every request has its own connection, which the system gives to any front
 * thread.
 */
import { WebSocket } from 'ws'
import { post as send } from '../../kit/client.ts'

export type Reply = {
  readonly status: number
  readonly body: {
    readonly result?: unknown
    readonly error?: { readonly code: number; readonly message: string }
  }
}

let nextId = 1
export const request = (
  url: string,
  method: string,
  params: readonly unknown[] = [],
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> => post(url, { jsonrpc: '2.0', id: nextId++, method, params }, headers)

/**
 * Sends a body.
 * @param body of one request or of a batch
 */
export async function post(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string>>,
): Promise<Reply> {
  const said = await send(url, JSON.stringify(body), { agent: false, headers })
  const isJson = said.headers['content-type']?.startsWith('application/json') === true
  return { status: said.status, body: isJson ? JSON.parse(said.text) : {} }
}

/**
 * Sends a request and gives its result.
 * @throws {Error} the error of the response
 */
export async function result<T>(...requested: Parameters<typeof request>): Promise<T> {
  const { body } = await request(...requested)
  if (body.error !== undefined)
    throw new Error(`${requested[1]}: ${body.error.code} ${body.error.message}`)
  return body.result as T
}

/** Runs the requests of all clients at the same time. */
export const together = <T>(count: number, one: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => one(index)))

export type Listener = {
  readonly socket: WebSocket
  readonly received: unknown[]
  call(method: string, params: readonly unknown[]): Promise<unknown>
  /** Resolves when the received messages are enough. */
  until(isEnough: (received: readonly unknown[]) => boolean): Promise<void>
}

export async function listen(url: string): Promise<Listener> {
  const socket = new WebSocket(url.replace('http', 'ws'))
  const received: unknown[] = []
  const responses = new Map<number, (result: unknown) => void>()
  let check = () => {}
  socket.on('message', (data) => {
    const message = JSON.parse(data.toString())
    if (responses.has(message.id)) responses.get(message.id)!(message.result)
    else received.push(message.params?.result ?? message)
    check()
  })
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  return {
    socket,
    received,
    call(method, params) {
      const id = nextId++
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
      return new Promise((resolve) => responses.set(id, resolve))
    },
    until: (isEnough) =>
      new Promise((resolve) => {
        check = () => {
          if (isEnough(received)) resolve()
        }
        check()
      }),
  }
}
