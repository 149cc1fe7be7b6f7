/** Clients whose every request is a connection of its own: the system gives each to some cell. */
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
export const ask = (
  url: string,
  method: string,
  params: readonly unknown[] = [],
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> => post(url, { jsonrpc: '2.0', id: nextId++, method, params }, headers)

/** @param body of one request or of a batch */
export async function post(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string>>,
): Promise<Reply> {
  const said = await send(url, JSON.stringify(body), { agent: false, headers })
  const isJson = said.headers['content-type']?.startsWith('application/json') === true
  return { status: said.status, body: isJson ? JSON.parse(said.text) : {} }
}

/** @throws what it is answered with */
export async function result<T>(...asked: Parameters<typeof ask>): Promise<T> {
  const { body } = await ask(...asked)
  if (body.error !== undefined)
    throw new Error(`${asked[1]}: ${body.error.code} ${body.error.message}`)
  return body.result as T
}

/** A request of everybody, at the same time. */
export const together = <T>(count: number, one: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => one(index)))

export type Listener = {
  readonly socket: WebSocket
  readonly heard: unknown[]
  call(method: string, params: readonly unknown[]): Promise<unknown>
  /** Resolves when what is heard is enough. */
  until(isEnough: (heard: readonly unknown[]) => boolean): Promise<void>
}

export async function listen(url: string): Promise<Listener> {
  const socket = new WebSocket(url.replace('http', 'ws'))
  const heard: unknown[] = []
  const answers = new Map<number, (result: unknown) => void>()
  let look = () => {}
  socket.on('message', (data) => {
    const message = JSON.parse(data.toString())
    if (answers.has(message.id)) answers.get(message.id)!(message.result)
    else heard.push(message.params?.result ?? message)
    look()
  })
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  return {
    ...{ socket, heard },
    call(method, params) {
      const id = nextId++
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
      return new Promise((resolve) => answers.set(id, resolve))
    },
    until: (isEnough) =>
      new Promise((resolve) => {
        look = () => {
          if (isEnough(heard)) resolve()
        }
        look()
      }),
  }
}
