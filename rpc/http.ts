/** JSON-RPC on Node's request and response, for requests that are not plain (plain-http.ts): the router has read the body. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Endpoint } from '../engine/chain/types.ts'
import { clientAddress, type TrustedProxies } from './address.ts'
import type { Answer, Answerer } from './exchange.ts'
import type { Client } from './method.ts'
import type { ServerState } from './server.ts'
import type { Unsent } from './unsent.ts'

export type HttpCallOptions = {
  readonly trustedProxies: TrustedProxies
  readonly answer: Answerer
  /** The answer could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  readonly state: ServerState
  readonly unsent: Unsent
}
export type HttpExchange = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly endpoint: Endpoint
  /** The router's. */
  readonly headers: OutgoingHttpHeaders
}
export type HttpCalls = (body: string, exchange: HttpExchange) => void

export function createHttpCalls(options: HttpCallOptions): HttpCalls {
  const { state, onBug, trustedProxies } = options

  function answer(body: string, exchange: HttpExchange): void {
    const { request, response, endpoint } = exchange
    const address = addressOf(request, trustedProxies)
    state.begun()
    const answered = options.answer(body, new HttpClient(address, endpoint, response))
    if (answered instanceof Promise) void answered.then((one) => end(one, exchange))
    else end(answered, exchange)
  }

  function end(answer: Answer, { response, headers }: HttpExchange): void {
    try {
      write(response, answer, headers)
      // What the system has not taken at once is kept until its client reads.
      if (!response.writableFinished && !response.destroyed) watch(response, answer)
    } catch (error) {
      onBug(error)
      response.destroy()
    }
    state.ended()
  }

  function watch(response: ServerResponse, { text }: Answer): void {
    const taken = options.unsent.add(text?.length ?? 0, () => response.destroy())
    response.once('finish', taken)
    response.once('close', taken)
  }

  return answer
}

/** The AbortController costs a microsecond: made only when somebody asks for the signal. */
class HttpClient implements Client {
  readonly address: string
  readonly endpoint: Endpoint
  readonly notify = undefined
  readonly #response: ServerResponse
  #controller: AbortController | undefined

  constructor(address: string, endpoint: Endpoint, response: ServerResponse) {
    this.address = address
    this.endpoint = endpoint
    this.#response = response
  }

  get isGone(): boolean {
    return this.#response.closed
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const made = new AbortController()
      this.#controller = made
      if (this.#response.closed) made.abort()
      else this.#response.once('close', () => made.abort())
    }
    return this.#controller.signal
  }
}

function write(
  response: ServerResponse,
  { text, status, headers }: Answer,
  own: OutgoingHttpHeaders,
): void {
  if (response.destroyed) return
  if (text === undefined) {
    response.writeHead(status, { ...own, ...headers })
    response.end()
    return
  }
  const bytes = Buffer.byteLength(text)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes,
    ...own,
    ...headers,
  })
  // Plain ASCII, which nearly every answer is, is written without being encoded.
  response.end(text, bytes === text.length ? 'latin1' : 'utf8')
}

export function addressOf(request: IncomingMessage, trusted: TrustedProxies): string {
  const forwarded = request.headers['x-forwarded-for']
  const text = Array.isArray(forwarded) ? forwarded.join(',') : forwarded
  return clientAddress(request.socket.remoteAddress, text, trusted)
}
