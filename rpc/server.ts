/** The HTTP and WebSocket face: sockets, paths and their limits; bytes in, text out. It knows no method. */
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { promisify } from 'node:util'
import cors from '@fastify/cors'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import type { TrustedProxies } from './address.ts'
import { endBeforeRequest, readBody, UNSUPPORTED_ENCODING } from './body.ts'
import type { Answerer } from './exchange.ts'
import { createHostCheck } from './hosts.ts'
import { addressOf, createHttpCalls, ENDPOINTS, type HttpCalls } from './http.ts'
import type { Limits } from './limits.ts'
import { serveMessages } from './messages.ts'
import { createOutgoing, type Outgoing } from './outgoing.ts'
import { createUnsent, type Unsent } from './unsent.ts'
import { createWebSockets, type Open, refuseUpgrade, type WebSockets } from './websocket.ts'

// An import would also load what `node:http` exports of undici: 40 ms of every start (2026-11).
const { createServer: createHttpServer } = process.getBuiltinModule('node:http')

export type Readiness = {
  readonly status: 'ready' | 'degraded' | 'unready'
  readonly reasons: readonly string[]
  readonly details: Readonly<Record<string, unknown>>
}
export type ServerOptions = {
  readonly limits: Limits
  /** Origins of browsers, or '*'. */
  readonly cors: readonly string[]
  /** Names that a Host header may have besides loopback names and addresses; '*' for all. */
  readonly hosts: readonly string[]
  readonly trustedProxies: TrustedProxies
  readonly answer: Answerer
  /** The answer could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  /** WebSocket /feed; undefined: not served. */
  readonly feed: Open | undefined
  /** Whether a WebSocket request is the node's own (its writer reads /feed): those take no place of the limits. */
  readonly isOwn: (headers: IncomingHttpHeaders) => boolean
  readonly readiness: () => Readiness
  /** HTML for people at GET /. */
  readonly page: () => string
}

export interface Server {
  /** Resolves with the port taken. @throws the system's error (EADDRINUSE, EACCES …). */
  listen(address: { readonly host: string; readonly port: number }): Promise<number>
  /** JSON-RPC is refused with 503 and this reason; undefined: served. /feed and the health pages are always served. */
  setPaused(reason: 'starting' | 'draining' | undefined): void
  /** Requests and messages being answered. */
  readonly inFlight: number
  readonly webSockets: number
  readonly unsent: Unsent['stats']
  /** Open sockets, WebSockets included. */
  connections(): Promise<number>
  /** WebSockets get 1001 once their answers are out; resolves when all is answered, or after `withinMs`. */
  drain(withinMs: number): Promise<void>
  close(): Promise<void>
  /** For tests: requests without a socket. */
  readonly inject: FastifyInstance['inject']
}

const pathOf = (url: string | undefined) => (url ?? '').split('?', 1)[0]!
const UNSUPPORTED_TYPE = 'invalid content type, only application/json is supported'
const EXPOSED_HEADERS = ['X-Flashblock', 'Retry-After', 'RateLimit', 'RateLimit-Policy']

export async function createServer(options: ServerOptions): Promise<Server> {
  const { limits } = options
  const state = createState()
  const unsent = createUnsent(limits)
  const outgoing = createOutgoing()
  const isHostAllowed = createHostCheck(options.hosts)
  const isAnyOrigin = options.cors.includes('*')
  const calls = createHttpCalls({
    ...options,
    ...{ isHostAllowed, isAnyOrigin, state, unsent, outgoing },
    bodyBytes: limits.bodyBytes,
    headersWithoutOrigin: {
      ...(isAnyOrigin ? { 'access-control-allow-origin': '*' } : { vary: 'Origin' }),
      'access-control-expose-headers': EXPOSED_HEADERS.join(', '),
    },
  })
  const isLast = countRequests(limits.requestsPerSocket)
  const server = fastify({
    serverFactory(route) {
      const http = createHttpServer(
        { headersTimeout: limits.headersMs, connectionsCheckingInterval: 1_000 },
        (request, response) => {
          if (isLast(request.socket)) response.shouldKeepAlive = false
          if (!calls.take(request, response)) route(request, response)
        },
      )
      http.requestTimeout = limits.requestMs
      http.keepAliveTimeout = limits.keepAliveMs
      http.maxConnections = limits.sockets
      // Longer than any answer takes: what is silent for so long does not read its answer.
      return http.setTimeout(limits.requestMs + limits.traceMs)
    },
    bodyLimit: limits.bodyBytes,
    forceCloseConnections: true,
    return503OnClosing: false,
    exposeHeadRoutes: true,
  })
  server.addHook('onRequest', (request, reply, done) => {
    if (isHostAllowed(request.headers.host)) done()
    else refuse(reply, 403, 'invalid host specified')
  })
  await server.register(cors, {
    origin: isAnyOrigin ? '*' : [...options.cors],
    methods: ['POST', 'GET', 'OPTIONS'],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: 600,
    strictPreflight: false,
  })
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', (_request, payload, done) =>
    readBody(payload, { limit: limits.bodyBytes, done }),
  )
  server.setErrorHandler((error: HttpError, _request, reply) => answerFailure(error, reply))
  server.setNotFoundHandler((request, reply) => answerUnrouted(request, reply))
  addPages(server, options)
  addEndpoints(server, calls, state)
  const sending = { unsent, outgoing }
  const webSockets = addWebSockets(server, { ...options, isHostAllowed, state, sending })

  return {
    async listen(address) {
      await server.listen(address)
      return (server.server.address() as AddressInfo).port
    },
    setPaused(reason) {
      state.paused = reason
    },
    get inFlight() {
      return state.inFlight
    },
    get webSockets() {
      return webSockets.size
    },
    get unsent() {
      return unsent.stats
    },
    connections: () => promisify(server.server.getConnections.bind(server.server))(),
    async drain(withinMs) {
      state.paused = 'draining'
      await state.idle(withinMs)
      webSockets.closeAll(1001, 'the node is stopping')
    },
    async close() {
      webSockets.closeAll(1001, 'the node is stopping')
      await server.close()
    },
    inject: server.inject.bind(server),
  }
}

/** What the sockets share: how many answers are being made, and whether requests are taken. */
export type ServerState = {
  paused: 'starting' | 'draining' | undefined
  inFlight: number
  /** One answer more, until `ended`. */
  begun(): void
  ended(): void
  /** Resolves when nothing is in flight, or after `withinMs`. */
  idle(withinMs: number): Promise<void>
}

function createState(): ServerState {
  let onIdle = () => {}
  return {
    paused: undefined,
    inFlight: 0,
    begun() {
      this.inFlight++
    },
    ended() {
      if (--this.inFlight === 0) onIdle()
    },
    async idle(withinMs) {
      if (this.inFlight === 0) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, withinMs)
        onIdle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    },
  }
}

function addEndpoints(server: FastifyInstance, calls: HttpCalls, state: ServerState): void {
  for (const [path, endpoint] of ENDPOINTS)
    server.post<{ Body: string | undefined }>(path, (request, reply) => {
      if (state.paused !== undefined) {
        answerPaused(state.paused, reply)
        return
      }
      // Without a content type and a body, no parser is asked.
      if (request.body === undefined) {
        refuse(reply, 415, UNSUPPORTED_TYPE)
        return
      }
      reply.hijack()
      const headers = reply.getHeaders() as OutgoingHttpHeaders
      calls.answer(request.body, { request: request.raw, response: reply.raw, endpoint, headers })
    })
}

type WebSocketOptions = ServerOptions & {
  readonly isHostAllowed: (host: string | undefined) => boolean
  readonly state: ServerState
  readonly sending: { readonly unsent: Unsent; readonly outgoing: Outgoing }
}

function addWebSockets(server: FastifyInstance, options: WebSocketOptions): WebSockets {
  const { limits, state, feed } = options
  const webSockets = createWebSockets(limits, { ...options.sending, onBug: options.onBug })
  const isOriginAllowed = (origin: string | undefined) =>
    origin === undefined || options.cors.includes('*') || options.cors.includes(origin)
  server.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const refusal = (status: number, reason: string) => refuseUpgrade(socket, status, reason)
    const { host, origin } = request.headers
    if (!options.isHostAllowed(host)) return refusal(403, 'invalid host specified')
    if (!isOriginAllowed(origin)) return refusal(403, 'origin not allowed')
    const path = pathOf(request.url)
    const endpoint = ENDPOINTS.get(path)
    const address = addressOf(request, options.trustedProxies)
    const isOwn = options.isOwn(request.headers)
    const upgrade = { request, socket, head, address, isOwn }
    if (path === '/feed' && feed !== undefined)
      return webSockets.accept(upgrade, limits.feedQueueBytes, feed)
    if (endpoint === undefined) return refusal(404, 'not found')
    if (state.paused !== undefined) return refusal(503, state.paused)
    return webSockets.accept(upgrade, limits.sendQueueBytes, (connection) =>
      serveMessages(connection, { ...options, endpoint }),
    )
  })
  return webSockets
}

function addPages(server: FastifyInstance, options: ServerOptions): void {
  for (const path of ENDPOINTS.keys())
    server.get(path, (_request, reply) =>
      reply.type('text/html; charset=utf-8').send(options.page()),
    )
  server.get('/healthz', () => ({ status: 'alive' }))
  server.get('/readyz', (_request, reply) => {
    const { status, reasons, details } = options.readiness()
    return reply.code(status === 'unready' ? 503 : 200).send({ status, reasons, ...details })
  })
}

type HttpError = { readonly statusCode?: number; readonly message: string }
function answerFailure(error: HttpError, reply: FastifyReply): FastifyReply {
  const status = error.statusCode ?? 500
  if (status === 415 && error.message !== UNSUPPORTED_ENCODING)
    return refuse(reply, 415, UNSUPPORTED_TYPE)
  if (status !== 413) return refuse(reply, status, status < 500 ? error.message : 'internal error')
  const text = JSON.stringify(failure(-32600, error.message))
  reply.hijack()
  reply.raw.writeHead(413, {
    ...(reply.getHeaders() as OutgoingHttpHeaders),
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  })
  reply.raw.write(text)
  endBeforeRequest(reply.request.raw, reply.raw)
  return reply
}

/** Whether a connection has had as many requests as it may. Node's own count keeps it open and refuses what follows with 503. */
function countRequests(most: number): (socket: Socket) => boolean {
  const requests = new WeakMap<Socket, number>()
  return (socket) => {
    const count = (requests.get(socket) ?? 0) + 1
    requests.set(socket, count)
    return count >= most
  }
}

function answerUnrouted(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (!ENDPOINTS.has(pathOf(request.url))) return refuse(reply, 404, 'not found')
  return refuse(reply.header('allow', 'POST, GET, OPTIONS'), 405, 'method not allowed')
}

function answerPaused(reason: 'starting' | 'draining', reply: FastifyReply): FastifyReply {
  const message = reason === 'starting' ? 'the node is starting' : 'the node is stopping'
  return reply
    .code(503)
    .header('retry-after', '1')
    .header('connection', 'close')
    .send(failure(-32005, message, { reason }))
}

function failure(code: number, message: string, data?: object): object {
  const error = data === undefined ? { code, message } : { code, message, data }
  return { jsonrpc: '2.0', id: null, error }
}

function refuse(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type('text/plain; charset=utf-8').send(`${text}\n`)
}
