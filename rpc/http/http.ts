/**
 * JSON-RPC over HTTP. A usual request is answered straight on Node's own objects; one with anything unusual about it takes the router's
 * way, which costs 5 µs more and knows what to say to it.
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Endpoint } from '../../engine/chain/types.ts'
import { errorText } from '../json/envelope.ts'
import { headersOfRefusal } from '../limiter/headers.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { clientAddress, limiterKey, type TrustedProxies } from '../seam/address.ts'
import type { ApiKeys } from '../seam/api-keys.ts'
import type { Client } from '../seam/client.ts'
import { RpcError, rateLimited } from '../seam/errors.ts'
import type { Answer, Answerer, Part } from '../seam/exchange.ts'
import { createClosing } from '../sockets/closing.ts'
import { type Bodies, type Body, BodyRefusal } from './body.ts'
import { readKey } from './callers.ts'
import type { Encoding } from './encoding.ts'
import type { createTurns, Floods } from './floods.ts'
import type { Held } from './held.ts'
import { hasTwoHosts } from './hosts.ts'
import { hasUnknownKey, Incoming, isExpectationKnown } from './incoming.ts'
import { createUnreadEnding, endAtOnce, endBeforeRequest } from './linger.ts'
import type { Outgoing, Taker } from './outgoing.ts'
import type { Sockets } from './sockets.ts'
import type { ServerState } from './state.ts'
import type { Unsent } from './unsent.ts'

export const ENDPOINTS: ReadonlyMap<string, Endpoint> = new Map([
  ['/', 'standard'],
  ['/flashblocks', 'flashblocks'],
])

export const pathOf = (url: string | undefined): string => (url ?? '').split('?', 1)[0]!

export type HttpCallOptions = {
  readonly bodyBytes: number
  readonly trustedProxies: TrustedProxies
  readonly answer: Answerer
  readonly bodies: Bodies
  readonly limiter: Pick<Limiter, 'held'>
  readonly held: Held
  /** The answer could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  readonly isHostAllowed: (host: string | undefined) => boolean
  /** Headers of an answer that no browser's origin decides; undefined: every origin is looked at. */
  readonly headersWithoutOrigin: OutgoingHttpHeaders
  readonly isAnyOrigin: boolean
  readonly state: ServerState
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly encoding: Encoding
}

export interface HttpCalls {
  /** False: not taken, it is the router's. */
  take(request: IncomingMessage, response: ServerResponse): boolean
  /** A body that the router has read; `headers` are the router's. */
  answer(body: Body, exchange: HttpExchange): void
  /** Answers a request whose body is not read, or not any further, and closes the connection. */
  refuse(refusal: BodyRefusal, exchange: Omit<HttpExchange, 'endpoint'>): void
}
export type HttpExchange = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly endpoint: Endpoint
  readonly headers: OutgoingHttpHeaders
}

export function createHttpCalls(options: HttpCallOptions): HttpCalls {
  const { state, trustedProxies, headersWithoutOrigin } = options
  const end = createEnding(options)
  const endUnread = createUnreadEnding(createClosing())
  const refuse: HttpCalls['refuse'] = (refusal, exchange) =>
    refuseBody(refusal, exchange, endUnread)

  function answer({ text, address, paid }: Body, exchange: HttpExchange): void {
    state.begun()
    const answered = options.answer(text, new HttpClient(address, exchange), paid)
    if (answered instanceof Promise) void answered.then((one) => end(one, exchange))
    else end(answered, exchange)
  }

  return {
    answer,
    refuse,
    take(request, response) {
      const endpoint = ENDPOINTS.get(request.url ?? '')
      if (endpoint === undefined || state.paused !== undefined || !isUsual(request, options))
        return false
      const exchange = { request, response, endpoint, headers: headersWithoutOrigin }
      const address = addressOf(request, trustedProxies)
      const held = options.limiter.held(address)
      if (held !== undefined) {
        options.held.hold(held, exchange)
        return true
      }
      options.bodies.read(request, address, (error, body) => {
        if (body !== undefined) answer(body, exchange)
        else if (error instanceof BodyRefusal) refuse(error, exchange)
        // A body that did not come whole has nobody left to be answered.
      })
      return true
    },
  }
}

type Handle = (request: IncomingMessage, response: ServerResponse) => void
/** What happens to a request whose headers are here: its place, its order, and whether it needs the router. */
export function createBeginning(options: {
  readonly calls: HttpCalls
  readonly sockets: Pick<Sockets, 'begin'>
  readonly floods: Pick<Floods, 'orderOf'>
  readonly later: ReturnType<typeof createTurns>
  readonly trustedProxies: TrustedProxies
  readonly apiKeys?: ApiKeys | undefined
  readonly route: Handle
}): Handle {
  const { calls, sockets, floods, later, trustedProxies, apiKeys, route } = options
  const handle: Handle = (request, response) => {
    if (!response.destroyed && !calls.take(request, response)) route(request, response)
  }
  return (request, response) => {
    // What else came with the request that ended it.
    if (request.socket.destroyed) return
    if (apiKeys !== undefined) readKey(request as Incoming, apiKeys)
    sockets.begin(request, response)
    const order = floods.orderOf(request, response)
    if (order === 'now') handle(request, response)
    else if (order === 'later')
      later(limiterKey(addressOf(request, trustedProxies)), () => handle(request, response))
  }
}

/** Sends answers: what is large in parts, in turns with others. */
function createEnding(options: HttpCallOptions): (answer: Answer, exchange: HttpExchange) => void {
  const { state, onBug } = options

  function end(answer: Answer, exchange: HttpExchange): void {
    const address = () => addressOf(exchange.request, options.trustedProxies)
    const encoded = options.encoding.encode(answer, { ...exchange, address })
    if (encoded === undefined) endAsItIs(answer, exchange)
    else void encoded.then((one) => endAsItIs(one, exchange))
  }

  function endAsItIs(answer: Answer, { response, headers }: HttpExchange): void {
    if (answer.parts !== undefined) {
      endLarge(answer, answer.parts, { response, headers })
      return
    }
    try {
      write(response, answer, headers)
      // What the system has not taken at once is kept until its client reads.
      if (!isTaken(response)) watch(response, answer.text?.length ?? 0)
    } catch (error) {
      onBug(error)
      response.destroy()
    }
    state.ended()
  }

  function endLarge(
    { status, headers }: Answer,
    parts: readonly Part[],
    exchange: Pick<HttpExchange, 'response' | 'headers'>,
  ): void {
    const { response } = exchange
    if (response.destroyed) {
      state.ended()
      return
    }
    response.once('close', () => state.ended())
    try {
      let length = 0
      for (const part of parts) length += part.length
      response.writeHead(status, {
        'content-type': 'application/json',
        'content-length': length,
        ...exchange.headers,
        ...headers,
      })
      watch(response, length)
      options.outgoing.send(parts, takerOf(response), onBug)
    } catch (error) {
      onBug(error)
      response.destroy()
    }
  }

  function watch(response: ServerResponse, bytes: number): void {
    const taken = options.unsent.add(bytes, () => response.destroy())
    response.on('finish', taken)
    response.on('close', taken)
  }

  return end
}

/** All of an answer is with the system, or never will be. It is known before 'finish' tells of it; one behind others has no socket yet. */
function isTaken({ destroyed, writableFinished, writableEnded, socket }: ServerResponse): boolean {
  return destroyed || writableFinished || (writableEnded && socket?.writableLength === 0)
}

/** Nothing about it needs the router. */
function isUsual(
  request: IncomingMessage,
  { bodyBytes, isAnyOrigin, isHostAllowed }: HttpCallOptions,
): boolean {
  const { method, headers, rawHeaders } = request
  return (
    method === 'POST' &&
    headers['content-type'] === 'application/json' &&
    headers['content-encoding'] === undefined &&
    Number(headers['content-length']) <= bodyBytes &&
    (isAnyOrigin || headers.origin === undefined) &&
    isHostAllowed(headers.host) &&
    !hasTwoHosts(rawHeaders) &&
    isExpectationKnown(headers) &&
    !hasUnknownKey(request)
  )
}

/** @param endUnread for one whose rest is not read */
function refuseBody(
  { statusCode, says, rest }: BodyRefusal,
  { request, response, headers }: Omit<HttpExchange, 'endpoint'>,
  endUnread: ReturnType<typeof createUnreadEnding>,
): void {
  if (response.destroyed) return
  const isRate = !(says instanceof RpcError)
  const error = isRate ? rateLimited(says) : says
  const text = errorText('null', error.toObject())
  response.writeHead(statusCode, {
    ...headers,
    ...(isRate ? headersOfRefusal(says) : {}),
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  })
  if (rest === 'unread') endUnread(request, response, text)
  else if (rest.bytes === 0) endAtOnce(request, response, text)
  else {
    response.write(text)
    endBeforeRequest(request, response, rest)
  }
}

/**
 * The AbortController costs a microsecond: made only when somebody asks for the signal. A class, because an object literal with a getter
 * gets a hidden class of its own each time: 10 µs of garbage collection a request (2026-11).
 */
class HttpClient implements Client {
  readonly address: string
  readonly endpoint: Endpoint
  readonly notify = undefined
  readonly minFlashblock: string | undefined
  readonly #response: ServerResponse
  #controller: AbortController | undefined

  constructor(address: string, { request, response, endpoint }: HttpExchange) {
    this.address = address
    this.endpoint = endpoint
    const asked = request.headers['x-min-flashblock']
    // Node joins a header that was sent twice.
    this.minFlashblock = Array.isArray(asked) ? asked.join() : asked
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

function takerOf(response: ServerResponse): Taker {
  return {
    get isGone() {
      return response.destroyed
    },
    write: (part) =>
      typeof part === 'string' ? response.write(asciiOf(part), 'latin1') : response.write(part),
    onceRoom: (go) => void response.once('drain', go),
    end: () => void response.end(),
    destroy: () => void response.destroy(),
  }
}

/** Not ended with it: `onEnd` when all is with the system. */
export function takerOfSocket(socket: Socket, onEnd: () => void): Taker {
  return {
    get isGone() {
      return socket.destroyed
    },
    write: (part) =>
      typeof part === 'string' ? socket.write(asciiOf(part), 'latin1') : socket.write(part),
    onceRoom: (go) => void socket.once('drain', go),
    end: () => void socket.write('', onEnd),
    destroy: () => void socket.destroy(),
  }
}

/** Its length was announced in characters. */
function asciiOf(text: string): string {
  if (Buffer.byteLength(text) !== text.length) throw new Error('an answer is not plain ASCII')
  return text
}

/** Who is asked for: the name of its key, or its address. */
export function addressOf(request: IncomingMessage, trusted: TrustedProxies): string {
  if (request instanceof Incoming && request.caller !== undefined) return request.caller
  const forwarded = request.headers['x-forwarded-for']
  const text = Array.isArray(forwarded) ? forwarded.join(',') : forwarded
  return clientAddress(request.socket.remoteAddress, text, trusted)
}
