/**
 * JSON-RPC over Node's HTTP. This file checks a request before Fastify routes it, and sends the
 * response after the route has read the body. Plain requests use the fast path instead (`line.ts`).
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Endpoint } from '../../engine/chain/types.ts'
import type { ApiKeys } from '../core/api-keys.ts'
import type { Client } from '../core/client.ts'
import { type Refusal, RpcError, rateLimited, unavailable } from '../core/errors.ts'
import type { Part, Responder, RpcResponse } from '../core/exchange.ts'
import { errorText } from '../json/envelope.ts'
import { clientAddress, limiterKey, type TrustedProxies } from '../limiter/address.ts'
import { headersOfRefusal } from '../limiter/headers.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { createClosing } from '../sockets/closing.ts'
import type { Bodies, Body, BodyRefusal } from './body.ts'
import { readKey } from './callers.ts'
import type { Encoding } from './encoding.ts'
import type { createTurns, Floods } from './floods.ts'
import { Incoming, isJsonType, JSON_TYPES } from './incoming.ts'
import { createUnreadEnding, endAtOnce, endBeforeRequest } from './linger.ts'
import type { Outgoing, Taker } from './outgoing.ts'
import type { ServerState } from './server-state.ts'
import type { Sockets } from './sockets.ts'
import type { Throttle } from './throttle.ts'
import type { Unsent } from './unsent.ts'

export const ENDPOINTS: ReadonlyMap<string, Endpoint> = new Map([
  ['/', 'standard'],
  ['/flashblocks', 'flashblocks'],
])

export function pathOf(url = ''): string {
  const query = url.indexOf('?')
  return query < 0 ? url : url.slice(0, query)
}

export type HttpCallOptions = {
  readonly trustedProxies: TrustedProxies
  readonly respond: Responder
  /** Reports a response that could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  readonly state: ServerState
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly encoding: Encoding
}

export interface HttpCalls {
  respond(body: Body, exchange: HttpExchange): void
  /** Answers a request whose body is not read to its end, and closes the connection. */
  refuse(refusal: BodyRefusal, exchange: Omit<HttpExchange, 'endpoint'>): void
}
export type HttpExchange = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly endpoint: Endpoint
  /** Headers set by hooks of the route (CORS). */
  readonly headers: OutgoingHttpHeaders
}

export function createHttpCalls(options: HttpCallOptions): HttpCalls {
  const end = createEnding(options)
  const endUnread = createUnreadEnding(createClosing())
  return {
    respond({ text, address, prepaid }, exchange) {
      const { state, onBug } = options
      state.started()
      try {
        const response = options.respond(text, new HttpClient(address, exchange), prepaid)
        if (response instanceof Promise) void response.then((one) => end(one, exchange))
        else end(response, exchange)
      } catch (error) {
        // Fastify sends nothing once a handler has taken over its reply.
        onBug(error)
        exchange.response.destroy()
        state.ended()
      }
    },
    refuse: (refusal, exchange) => refuseBody(refusal, exchange, endUnread),
  }
}

type Handle = (request: IncomingMessage, response: ServerResponse) => void
/**
 * Applies the limits of sockets and floods once a request's headers are read, before Fastify routes
 * it.
 */
export function createRequestStart(options: {
  readonly sockets: Pick<Sockets, 'start'>
  readonly floods: Pick<Floods, 'orderOf'>
  readonly later: ReturnType<typeof createTurns>
  readonly trustedProxies: TrustedProxies
  readonly apiKeys?: ApiKeys | undefined
  readonly route: Handle
}): Handle {
  const { sockets, floods, later, trustedProxies, apiKeys, route } = options
  const handle: Handle = (request, response) => {
    if (!response.destroyed) route(request, response)
  }
  return (request, response) => {
    // A request may be read after an earlier one in the same chunk has closed the connection.
    if (request.socket.destroyed) return
    if (apiKeys !== undefined) readKey(request as Incoming, apiKeys)
    sockets.start(request, response)
    const order = floods.orderOf(request, response)
    if (order === 'now') handle(request, response)
    else if (order === 'later')
      later(limiterKey(addressOf(request, trustedProxies)), () => handle(request, response))
  }
}

type EndpointOptions = {
  readonly limiter: Pick<Limiter, 'throttled'>
  readonly trustedProxies: TrustedProxies
  readonly bodies: Bodies
  readonly throttle: Throttle
  readonly calls: HttpCalls
  readonly state: ServerState
}

/**
 * Adds the JSON-RPC routes. A hook delays clients that were refused too often. The parser reads and
 * charges the body, and the handler responds.
 */
export function addEndpoints(server: FastifyInstance, options: EndpointOptions): void {
  const { limiter, trustedProxies, bodies, throttle, calls, state } = options
  // Fastify's own JSON parser is removed. It would read a body without a charge, and parse it
  // before rpc/json/scan.ts checks its depth.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser([...JSON_TYPES], (_request, payload, done) =>
    bodies.read(payload, addressOf(payload, trustedProxies), done),
  )
  // A hook of a route runs after the server's hooks, so the response has the CORS headers.
  const onRequest: onRequestHookHandler = (request, reply, done) => {
    const refusal = limiter.throttled(addressOf(request.raw, trustedProxies))
    if (refusal !== undefined && isCall(request)) refuseLater(refusal, reply, throttle)
    else done()
  }
  for (const [path, endpoint] of ENDPOINTS)
    server.post<{ Body: Body | undefined }>(path, { onRequest }, ({ body, raw }, reply) => {
      if (state.paused !== undefined) {
        sendPaused(state.paused, reply)
        return
      }
      // No parser runs for a request without content type and body.
      if (body === undefined) {
        refuse(reply, 415, UNSUPPORTED_TYPE)
        return
      }
      reply.hijack()
      const headers = reply.getHeaders() as OutgoingHttpHeaders
      calls.respond(body, { request: raw, response: reply.raw, endpoint, headers })
    })
}

/** Tells whether a request's body is read and charged as JSON-RPC. */
export const isCall = ({ method, url, headers }: FastifyRequest): boolean =>
  method === 'POST' && ENDPOINTS.has(pathOf(url)) && isJsonType(headers['content-type'])

/** Answers a client that was refused too often, later and without reading its request. */
export function refuseLater(refusal: Refusal, reply: FastifyReply, throttle: Throttle): void {
  reply.hijack()
  const headers = reply.getHeaders() as OutgoingHttpHeaders
  throttle.delay(refusal, { request: reply.request.raw, response: reply.raw, headers })
}

function sendPaused(reason: 'starting' | 'draining', reply: FastifyReply): FastifyReply {
  const message = reason === 'starting' ? 'the node is starting' : 'the node is stopping'
  return reply
    .code(503)
    .header('retry-after', '1')
    .header('connection', 'close')
    .send({ jsonrpc: '2.0', id: null, error: unavailable(message, reason).toObject() })
}

export const UNSUPPORTED_TYPE = 'invalid content type, only application/json is supported'

export function refuse(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type('text/plain; charset=utf-8').send(`${text}\n`)
}

/**
 * Creates the function that sends responses. Large ones are sent in parts, in turns with others.
 */
function createEnding(
  options: HttpCallOptions,
): (response: RpcResponse, exchange: HttpExchange) => void {
  const { state, onBug } = options

  function end(response: RpcResponse, exchange: HttpExchange): void {
    const address = () => addressOf(exchange.request, options.trustedProxies)
    const encoded = options.encoding.encode(response, { ...exchange, address })
    if (encoded === undefined) endAsItIs(response, exchange)
    else void encoded.then((one) => endAsItIs(one, exchange))
  }

  function endAsItIs(reply: RpcResponse, { response, headers }: HttpExchange): void {
    if (reply.parts !== undefined) {
      endLarge(reply, reply.parts, { response, headers })
      return
    }
    try {
      write(response, reply, headers)
      // Bytes that the system did not take at once are counted until the client reads them.
      if (!isTaken(response)) watch(response, reply.text?.length ?? 0)
    } catch (error) {
      onBug(error)
      response.destroy()
    }
    state.ended()
  }

  function endLarge(
    { status, headers }: RpcResponse,
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

/**
 * Tells whether the system has taken the whole response, or never will. This is true before
 * 'finish' is emitted. A response behind others has no socket yet.
 */
function isTaken({ destroyed, writableFinished, writableEnded, socket }: ServerResponse): boolean {
  return destroyed || writableFinished || (writableEnded && socket?.writableLength === 0)
}

/** @param endUnread ends a request whose rest is not read */
function refuseBody(
  { statusCode, refusedWith, linger }: BodyRefusal,
  { request, response, headers }: Omit<HttpExchange, 'endpoint'>,
  endUnread: ReturnType<typeof createUnreadEnding>,
): void {
  if (response.destroyed) return
  const isRate = !(refusedWith instanceof RpcError)
  const error = isRate ? rateLimited(refusedWith) : refusedWith
  const text = errorText('null', error.toObject())
  response.writeHead(statusCode, {
    ...headers,
    ...(isRate ? headersOfRefusal(refusedWith) : {}),
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  })
  if (linger === 'unread') endUnread(request, response, text)
  else if (linger.bytes === 0) endAtOnce(request, response, text)
  else {
    response.write(text)
    endBeforeRequest(request, response, linger)
  }
}

/**
 * Client of an HTTP request. The AbortController costs a microsecond, so it is created on demand. A
 * class is used, because an object literal with a getter has a new hidden class each time. That
 * costs 10 µs of garbage collection per request (2026-11).
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
    const requested = request.headers['x-min-flashblock']
    // Node joins repeated headers.
    this.minFlashblock = Array.isArray(requested) ? requested.join() : requested
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
  { text, status, headers }: RpcResponse,
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
  // Almost all responses are ASCII, which needs no encoding.
  response.end(text, bytes === text.length ? 'latin1' : 'utf8')
}

function takerOf(response: ServerResponse): Taker {
  return {
    get isGone() {
      return response.destroyed
    },
    write: (part) =>
      typeof part === 'string' ? response.write(asciiOf(part), 'latin1') : response.write(part),
    onceDrained: (go) => void response.once('drain', go),
    end: () => void response.end(),
    destroy: () => void response.destroy(),
  }
}

/**
 * Writes a response to a socket that stays open.
 * @param onEnd called when the system has taken all parts
 */
export function takerOfSocket(socket: Socket, onEnd: () => void): Taker {
  return {
    get isGone() {
      return socket.destroyed
    },
    write: (part) =>
      typeof part === 'string' ? socket.write(asciiOf(part), 'latin1') : socket.write(part),
    onceDrained: (go) => void socket.once('drain', go),
    end: () => void socket.write('', onEnd),
    destroy: () => void socket.destroy(),
  }
}

/** Checks that a text is ASCII, because its announced length is in characters. */
function asciiOf(text: string): string {
  if (Buffer.byteLength(text) !== text.length) throw new Error('an answer is not plain ASCII')
  return text
}

/** Returns the pseudo-address of the request's API key, or the client's address. */
export function addressOf(request: IncomingMessage, trusted: TrustedProxies): string {
  if (request instanceof Incoming && request.caller !== undefined) return request.caller
  const forwarded = request.headers['x-forwarded-for']
  const text = Array.isArray(forwarded) ? forwarded.join(',') : forwarded
  return clientAddress(request.socket.remoteAddress, text, trusted)
}
