/**
 * HTTP and WebSocket server: sockets, paths and their limits. Bytes come in and text goes out;
 * methods are unknown here.
 */
import type { OutgoingHttpHeaders } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { promisify } from 'node:util'
import cors from '@fastify/cors'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import type { ApiKeys } from '../core/api-keys.ts'
import type { Responder } from '../core/exchange.ts'
import type { Limits } from '../core/limits.ts'
import type { ResponseTimes } from '../core/queue-class.ts'
import { keyNameOf, type TrustedProxies } from '../limiter/address.ts'
import { headersOfRefusal } from '../limiter/headers.ts'
import type { Limiter } from '../limiter/limiter.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import { maxLagOf } from '../proxy/lag.ts'
import type { ProxyRefusal } from '../proxy/proxied.ts'
import {
  type BodyLimits,
  BodyRefusal,
  createBodies,
  isLong,
  UNREAD_POINTS,
  UNSUPPORTED_ENCODING,
} from './body.ts'
import { createEncoding, type Encoding, type EncodingLimits } from './encoding.ts'
import { createFastPath, type FastPath } from './fast-path.ts'
import { createTurns, type FloodLimits, watchFloods } from './floods.ts'
import { corsOf, createHostCheck, EXPOSED_HEADERS, faultOfHead } from './hosts.ts'
import {
  addEndpoints,
  addressOf,
  createHttpCalls,
  createRequestStart,
  ENDPOINTS,
  type HttpCalls,
  isCall,
  pathOf,
  refuse,
  refuseLater,
  UNSUPPORTED_TYPE,
} from './http.ts'
import { openHttp, stopParsing } from './incoming.ts'
import { createIntake, type IntakeLimits } from './intake.ts'
import { createOutgoing } from './outgoing.ts'
import {
  createState,
  type ListenOptions,
  type Readiness,
  type ServerState,
} from './server-state.ts'
import { guardSockets, type SocketLimits, type Sockets } from './sockets.ts'
import { FILES_PATH, isBrowser, type PageFile, type StatusPage } from './status-page.ts'
import { createThrottle, type Throttle } from './throttle.ts'
import { createUnsent, type Unsent, type UnsentLimits } from './unsent.ts'
import {
  type Adopt,
  BOOTSTRAP_HEADER,
  type BootstrapHandler,
  type FeedHandler,
  serveWebSockets,
  type UpgradeLimits,
  visitorOf,
} from './upgrades.ts'

/** Limits of the server's parts, and of silent connections. */
export type ServerLimits = BodyLimits &
  EncodingLimits &
  FloodLimits &
  IntakeLimits &
  SocketLimits &
  UnsentLimits &
  UpgradeLimits &
  ResponseTimes &
  Pick<Limits, 'headersMs' | 'keepAliveMs'>
export type ServerOptions = {
  readonly limits: ServerLimits
  /**
   * Concurrency limits over several servers; left out: of this server only. The total of sockets is
   * always this server's own.
   */
  readonly concurrencyLimits?: OpenConcurrencyLimit | undefined
  /** Reader of plain requests: llhttp on their sockets, or Node's server as for all others. */
  readonly http: 'llhttp' | 'node'
  /** Allowed origins of browsers, or '*'. */
  readonly cors: readonly string[]
  /** Allowed names in a Host header, besides loopback names and addresses; '*' allows all. */
  readonly hosts: readonly string[]
  readonly trustedProxies: TrustedProxies
  /** Proxies that must name each client by the PROXY protocol. */
  readonly namingProxies: TrustedProxies
  /** Called when such a proxy did not name a client; the connection is closed. */
  readonly onUnnamed: (why: ProxyRefusal, proxy: string) => void
  /** API keys of clients. undefined: clients are identified by address. */
  readonly apiKeys?: ApiKeys | undefined
  readonly respond: Responder
  /** Rate limits of JSON-RPC requests, and of all other HTTP requests (`nonRpcRequests`). */
  readonly limiter: Pick<Limiter, 'charge' | 'throttled' | 'owe'>
  readonly nonRpcRequests: Pick<Limiter, 'charge' | 'throttled' | 'owe'>
  /** Reports a response that could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  /** Handler of WebSocket /feed; undefined: not served. */
  readonly feed: FeedHandler | undefined
  /** @param maxLagMs maximum age of the newest data; left out: the default */
  readonly readiness: (maxLagMs?: number) => Readiness | Promise<Readiness>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** HTML at GET / if there is no status page. */
  readonly page: () => string
  /** undefined: not served. */
  readonly status?: StatusPage | undefined
  /** GET /bootstrap; undefined: not served. */
  readonly bootstrap?: BootstrapHandler | undefined
}

export interface Server {
  /**
   * Resolves with the port taken.
   * @throws the system's error (EADDRINUSE, EACCES …)
   */
  listen(address: ListenOptions): Promise<number>
  /**
   * Refuses JSON-RPC with 503 and this reason; undefined: JSON-RPC is served. /feed and the health
   * pages are always served.
   */
  setPaused(reason: 'starting' | 'draining' | undefined): void
  /** Closes the WebSockets of these keys with code 1008. */
  closeCallers(names: ReadonlySet<string>): void
  /** Number of requests and messages being answered. */
  readonly inFlight: number
  readonly webSockets: number
  readonly adopt: Adopt
  readonly unsent: Unsent['stats']
  readonly encoding: Encoding['stats']
  readonly sockets: Sockets['stats']
  /** Number of open sockets, WebSockets included. */
  connections(): Promise<number>
  /**
   * Resolves when all requests are answered, or after `withinMs`. WebSockets are then closed with
   * code 1001.
   */
  drain(withinMs: number): Promise<void>
  close(): Promise<void>
  /** For tests: requests without a socket. */
  readonly inject: FastifyInstance['inject']
}

/**
 * Maximum number of connections that wait to be accepted. With Node's default of 511, clients of a
 * burst wait a second for their retry. The system allows at most 4,096 by default
 * (net.core.somaxconn).
 */
const BACKLOG = 4_096

export async function createServer(options: ServerOptions): Promise<Server> {
  const { limits, trustedProxies } = options
  const state = createState()
  const unsent = createUnsent(limits, options.now)
  const outgoing = createOutgoing()
  const encoding = createEncoding(limits, options)
  const isHostAllowed = createHostCheck(options.hosts)
  const isAnyOrigin = options.cors.includes('*')
  const intake = createIntake(limits)
  const { limiter } = options
  const strike = (socket: Socket) => sockets.strike(socket)
  const bodies = createBodies({ limits, intake, limiter, strike })
  const throttle = createThrottle(strike)
  const headersWithoutOrigin = {
    ...(isAnyOrigin ? { 'access-control-allow-origin': '*' } : { vary: 'Origin' }),
    'access-control-expose-headers': EXPOSED_HEADERS.join(', '),
  }
  const responding = {
    isHostAllowed,
    isAnyOrigin,
    headersWithoutOrigin,
    state,
    unsent,
    outgoing,
    encoding,
  }
  const calls = createHttpCalls({ ...options, ...responding })
  const later = createTurns(Math.max(1, limits.requestsPerTurn))
  const http = openHttp(limits)
  const sockets = guardSockets(http, {
    ...options,
    headersWithoutOrigin,
    open: (socket, toNode) =>
      fastPath === undefined ? toNode(socket) : fastPath.open(socket, toNode),
  })
  const floods = watchFloods(limits, (socket, by) => {
    const address = 'address' in by ? by.address : addressOf(by, trustedProxies)
    void limiter.charge(address, UNREAD_POINTS)
    strike(socket)
    stopParsing(socket)
    socket.destroy()
  })
  const shared = { ...options, ...responding, floods, later, sockets, intake }
  const fastPath = options.http === 'llhttp' ? createFastPath(shared) : undefined
  const server = fastify({
    serverFactory(route) {
      const start = createRequestStart({ ...options, sockets, floods, later, route })
      // Node would answer an unknown expectation by itself, without any limit.
      return http.on('request', start).on('checkExpectation', start)
    },
    clientErrorHandler: sockets.onBroken,
    bodyLimit: limits.bodyBytes,
    forceCloseConnections: true,
    return503OnClosing: false,
    exposeHeadRoutes: true,
    // Schemas stay off, because a method's codecs validate its parameters. A schema compiler would
    // load 115 modules at every start.
    schemaController: { compilersFactory: { buildValidator: noSchema, buildSerializer: noSchema } },
  })
  addRefusals(server, { options, throttle, isHostAllowed, calls })
  await server.register(cors, corsOf(options.cors))
  addPages(server, options)
  addEndpoints(server, { ...options, bodies, throttle, calls, state })
  const upgrades = serveWebSockets(http, shared)
  return controlsOf({ server, fastPath, state, unsent, encoding, sockets, ...upgrades })
}

function noSchema(): never {
  throw new Error('a route has a schema, but this server has no schema compiler')
}

function controlsOf(
  parts: {
    readonly server: FastifyInstance
    readonly fastPath: FastPath | undefined
    readonly state: ServerState
    readonly unsent: Unsent
    readonly encoding: Encoding
    readonly sockets: Sockets
  } & ReturnType<typeof serveWebSockets>,
): Server {
  const { server, fastPath, state, unsent, encoding, sockets, webSockets, adopt } = parts
  return {
    async listen(address) {
      await server.listen({ ...address, backlog: BACKLOG })
      return (server.server.address() as AddressInfo).port
    },
    setPaused(reason) {
      state.paused = reason
    },
    closeCallers(names) {
      const isMeant = (address: string) => names.has(keyNameOf(address) ?? '')
      webSockets.closeAll(1008, 'the API key is no longer valid', isMeant)
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
    encoding: encoding.stats,
    adopt,
    sockets: sockets.stats,
    connections: () => promisify(server.server.getConnections.bind(server.server))(),
    async drain(withinMs) {
      state.paused = 'draining'
      await state.idle(withinMs)
      webSockets.closeAll(1001, 'the node is stopping')
    },
    async close() {
      webSockets.closeAll(1001, 'the node is stopping')
      fastPath?.close()
      sockets.closeUnserved()
      await server.close()
    },
    inject: server.inject.bind(server),
  }
}

/** Adds the refusals of requests: forbidden clients, unreadable bodies, and unknown paths. */
function addRefusals(
  server: FastifyInstance,
  { options, throttle, isHostAllowed, calls }: Refusing,
): void {
  server.addHook('onRequest', (request, reply, done) => {
    const fault = faultOfHead(request.raw, isHostAllowed)
    if (fault !== undefined)
      admitNonRpcRequest(reply, { ...options, throttle, done: () => refuse(reply, ...fault) })
    else if (isCall(request)) done()
    else admitNonRpcRequest(reply, { ...options, throttle, done })
  })
  server.setErrorHandler((error: HttpError, _request, reply) => sendFailure(error, reply, calls))
  server.setNotFoundHandler((request, reply) => sendNotFound(request, reply))
}
type Refusing = {
  readonly options: ServerOptions
  readonly throttle: Throttle
  readonly isHostAllowed: (host: string | undefined) => boolean
  readonly calls: HttpCalls
}

function addPages(server: FastifyInstance, options: ServerOptions): void {
  const { status, bootstrap } = options
  if (bootstrap !== undefined)
    server.get('/bootstrap', async ({ raw, url }, reply) => {
      const visitor = visitorOf(raw, options.trustedProxies, BOOTSTRAP_HEADER)
      const { status: code, wrong, headers = {}, bytes } = await bootstrap(url, visitor)
      if (bytes === undefined) return refuse(reply.headers(headers), code, wrong ?? '')
      return reply
        .type('application/octet-stream')
        .send(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
    })
  for (const path of ENDPOINTS.keys())
    server.get(path, async ({ headers }, reply) =>
      status !== undefined && path === '/' && isBrowser(headers.accept)
        ? sendFile(reply, await status.html())
        : reply.type('text/html; charset=utf-8').send(options.page()),
    )
  server.get(`${FILES_PATH}*`, async (request, reply) =>
    sendFile(reply, await status?.file(pathOf(request.url).slice(FILES_PATH.length))),
  )
  server.get('/healthz', () => ({ status: 'alive' }))
  server.get('/readyz', async (request, reply) => {
    const requested = maxLagOf(request.url)
    if ('wrong' in requested) return refuse(reply, 400, requested.wrong)
    const { status, reasons, details } = await options.readiness(requested.maxLagMs)
    return reply.code(status === 'unready' ? 503 : 200).send({ status, reasons, ...details })
  })
}

const sendFile = (reply: FastifyReply, file: PageFile | undefined): FastifyReply =>
  file === undefined ? refuse(reply, 404, 'not found') : reply.headers(file.headers).send(file.body)

type HttpError = Error & { readonly statusCode?: number }
function sendFailure(error: HttpError, reply: FastifyReply, calls: HttpCalls): FastifyReply {
  const status = error.statusCode ?? 500
  if (status === 415 && error.message !== UNSUPPORTED_ENCODING)
    return refuse(reply, 415, UNSUPPORTED_TYPE)
  if (!(error instanceof BodyRefusal) || status === 415)
    return refuse(reply, status, status < 500 ? error.message : 'internal error')
  reply.hijack()
  const headers = reply.getHeaders() as OutgoingHttpHeaders
  calls.refuse(error, { request: reply.request.raw, response: reply.raw, headers })
  return reply
}

type Admission = Pick<ServerOptions, 'nonRpcRequests' | 'trustedProxies'> & {
  readonly throttle: Throttle
  readonly done: () => void
}

/**
 * Charges a request that is not JSON-RPC. JSON-RPC pays when its body is read. Other requests have
 * a separate bucket, because a load balancer checks the health of a node with refused clients. A
 * long body is not read.
 */
function admitNonRpcRequest(
  reply: FastifyReply,
  { nonRpcRequests, trustedProxies, throttle, done }: Admission,
): void {
  const { raw } = reply.request
  const address = addressOf(raw, trustedProxies)
  const refusal = nonRpcRequests.throttled(address)
  if (refusal !== undefined) {
    refuseLater(refusal, reply, throttle)
    return
  }
  const isUnread = isLong(raw)
  if (isUnread) {
    reply.header('connection', 'close')
    stopParsing(raw.socket)
    reply.raw.once('finish', () => raw.socket.destroy())
  }
  void Promise.resolve(nonRpcRequests.charge(address, isUnread ? UNREAD_POINTS : 1)).then(
    (charge) => {
      if (charge.isAllowed) done()
      else refuse(reply.headers(headersOfRefusal(charge)), 429, 'too many requests')
    },
  )
}
function sendNotFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (!ENDPOINTS.has(pathOf(request.url))) return refuse(reply, 404, 'not found')
  return refuse(reply.header('allow', 'POST, GET, OPTIONS'), 405, 'method not allowed')
}
