/** The HTTP and WebSocket face: sockets, paths and their limits; bytes in, text out. It knows no method. */
import type { OutgoingHttpHeaders } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { promisify } from 'node:util'
import cors from '@fastify/cors'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { maxLagOf } from '../behind/lag.ts'
import type { ProxyRefusal } from '../behind/proxied.ts'
import { headersOfRefusal } from '../limiter/headers.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { keyNameOf, type TrustedProxies } from '../seam/address.ts'
import type { ApiKeys } from '../seam/api-keys.ts'
import { unavailable } from '../seam/errors.ts'
import type { Answerer } from '../seam/exchange.ts'
import type { Deadlines } from '../seam/lane.ts'
import type { Limits } from '../seam/limits.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'
import {
  type Body,
  type BodyLimits,
  BodyRefusal,
  createBodies,
  isLong,
  UNREAD_POINTS,
  UNSUPPORTED_ENCODING,
} from './body.ts'
import { createEncoding, type Encoding, type EncodingLimits } from './encoding.ts'
import { createTurns, type FloodLimits, watchFloods } from './floods.ts'
import { createHeld, type Held } from './held.ts'
import { corsOf, createHostCheck, EXPOSED_HEADERS, faultOfHead } from './hosts.ts'
import {
  addressOf,
  createBeginning,
  createHttpCalls,
  ENDPOINTS,
  type HttpCalls,
  pathOf,
} from './http.ts'
import { isJsonType, JSON_TYPES, openHttp, stopParsing } from './incoming.ts'
import { createIntake, type IntakeLimits } from './intake.ts'
import { createOutgoing } from './outgoing.ts'
import { createShortWay, type ShortWay } from './short-way.ts'
import { guardSockets, type SocketLimits, type Sockets } from './sockets.ts'
import { createState, type ListenAddress, type Readiness, type ServerState } from './state.ts'
import { FILES_PATH, isBrowser, type PageFile, type StatusPage } from './status-page.ts'
import { createUnsent, type Unsent, type UnsentLimits } from './unsent.ts'
import {
  type Adopt,
  BOOTSTRAP_HEADER,
  type BootstrapDoor,
  type FeedDoor,
  serveWebSockets,
  type UpgradeLimits,
  visitorOf,
} from './upgrades.ts'

/** Those of its parts, and how long a connection may be silent. */
export type ServerLimits = BodyLimits &
  EncodingLimits &
  FloodLimits &
  IntakeLimits &
  SocketLimits &
  UnsentLimits &
  UpgradeLimits &
  Deadlines &
  Pick<Limits, 'headersMs' | 'keepAliveMs'>
export type ServerOptions = {
  readonly limits: ServerLimits
  /** Sockets and WebSockets of clients over several servers; left out: of this one. The total of sockets is always its own. */
  readonly caps?: OpenCaps | undefined
  /** Who reads plain requests: llhttp on their sockets, or Node's server as all others. */
  readonly http: 'llhttp' | 'node'
  /** Origins of browsers, or '*'. */
  readonly cors: readonly string[]
  /** Names that a Host header may have besides loopback names and addresses; '*' for all. */
  readonly hosts: readonly string[]
  readonly trustedProxies: TrustedProxies
  /** Who names the client of each connection by the PROXY protocol, and has to. */
  readonly namingProxies: TrustedProxies
  /** One of them did not: its connection is closed. */
  readonly onUnnamed: (why: ProxyRefusal, proxy: string) => void
  /** Callers may say who they are; undefined: all are known by their addresses. */
  readonly apiKeys?: ApiKeys | undefined
  readonly answer: Answerer
  /** Of JSON-RPC requests, and of whatever else is asked over HTTP. */
  readonly limiter: Pick<Limiter, 'charge' | 'held' | 'owe'>
  readonly visits: Pick<Limiter, 'charge' | 'held' | 'owe'>
  /** The answer could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  /** WebSocket /feed; undefined: not served. */
  readonly feed: FeedDoor | undefined
  /** @param maxLagMs longest time without anything new; left out: as long as it may be */
  readonly readiness: (maxLagMs?: number) => Readiness | Promise<Readiness>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** HTML for people at GET /, where there is no other page. */
  readonly page: () => string
  /** undefined: not served. */
  readonly status?: StatusPage | undefined
  /** GET /bootstrap; undefined: not served. */
  readonly bootstrap?: BootstrapDoor | undefined
}

export interface Server {
  /** Resolves with the port taken. @throws the system's error (EADDRINUSE, EACCES …). */
  listen(address: ListenAddress): Promise<number>
  /** JSON-RPC is refused with 503 and this reason; undefined: served. /feed and the health pages are always served. */
  setPaused(reason: 'starting' | 'draining' | undefined): void
  /** WebSockets opened with the keys of these names end with 1008. */
  closeCallers(names: ReadonlySet<string>): void
  /** Requests and messages being answered. */
  readonly inFlight: number
  readonly webSockets: number
  readonly adopt: Adopt
  readonly unsent: Unsent['stats']
  readonly encoding: Encoding['stats']
  readonly sockets: Sockets['stats']
  /** Open sockets, WebSockets included. */
  connections(): Promise<number>
  /** WebSockets get 1001 once their answers are out; resolves when all is answered, or after `withinMs`. */
  drain(withinMs: number): Promise<void>
  close(): Promise<void>
  /** For tests: requests without a socket. */
  readonly inject: FastifyInstance['inject']
}

/**
 * Connections that wait to be accepted. Beyond Node's 511 a burst makes new clients wait for a second, until they ask again; the system
 * allows 4,096 at most by default (net.core.somaxconn).
 */
const BACKLOG = 4_096
const UNSUPPORTED_TYPE = 'invalid content type, only application/json is supported'

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
  const held = createHeld(strike)
  const headersWithoutOrigin = {
    ...(isAnyOrigin ? { 'access-control-allow-origin': '*' } : { vary: 'Origin' }),
    'access-control-expose-headers': EXPOSED_HEADERS.join(', '),
  }
  const answering = {
    ...{ isHostAllowed, isAnyOrigin, headersWithoutOrigin },
    ...{ state, unsent, outgoing, encoding },
  }
  const { bodyBytes } = limits
  const calls = createHttpCalls({ ...options, ...answering, bodyBytes, bodies, held })
  const later = createTurns(Math.max(1, limits.requestsPerTurn))
  const http = openHttp(limits)
  const sockets = guardSockets(http, {
    ...options,
    headersWithoutOrigin,
    open: (socket, toNode) => (short === undefined ? toNode(socket) : short.open(socket, toNode)),
  })
  const floods = watchFloods(limits, (socket, by) => {
    const address = 'address' in by ? by.address : addressOf(by, trustedProxies)
    void limiter.charge(address, UNREAD_POINTS)
    strike(socket)
    stopParsing(socket)
    socket.destroy()
  })
  const shared = { ...options, ...answering, floods, later, sockets, intake }
  const short = options.http === 'llhttp' ? createShortWay(shared) : undefined
  const server = fastify({
    serverFactory(route) {
      const begin = createBeginning({ ...options, calls, sockets, floods, later, route })
      // Node would answer by itself to an expectation that it does not know, past every bound.
      return http.on('request', begin).on('checkExpectation', begin)
    },
    clientErrorHandler: sockets.onBroken,
    bodyLimit: limits.bodyBytes,
    forceCloseConnections: true,
    return503OnClosing: false,
    exposeHeadRoutes: true,
    // No route has one, and what compiles them is 115 modules of every start.
    schemaController: { compilersFactory: { buildValidator: noSchema, buildSerializer: noSchema } },
  })
  addRefusals(server, { options, held, isHostAllowed, calls })
  await server.register(cors, corsOf(options.cors))
  server.removeAllContentTypeParsers()
  server.addContentTypeParser([...JSON_TYPES], (_request, payload, done) =>
    bodies.read(payload, addressOf(payload, trustedProxies), done),
  )
  addPages(server, options)
  addEndpoints(server, calls, state)
  const upgrades = serveWebSockets(http, shared)
  return controlsOf({ server, short, state, unsent, encoding, sockets, ...upgrades })
}

function noSchema(): never {
  throw new Error('a route has a schema, and nothing compiles it')
}

function controlsOf(
  parts: {
    readonly server: FastifyInstance
    readonly short: ShortWay | undefined
    readonly state: ServerState
    readonly unsent: Unsent
    readonly encoding: Encoding
    readonly sockets: Sockets
  } & ReturnType<typeof serveWebSockets>,
): Server {
  const { server, short, state, unsent, encoding, sockets, webSockets, adopt } = parts
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
      webSockets.closeAll(1008, 'its API key is not valid any more', isMeant)
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
      short?.close()
      sockets.closeUnserved()
      await server.close()
    },
    inject: server.inject.bind(server),
  }
}

/** What is no JSON-RPC request as it should be: who may ask at all, what is not read, what is not here. */
function addRefusals(
  server: FastifyInstance,
  { options, held, isHostAllowed, calls }: Refusing,
): void {
  server.addHook('onRequest', (request, reply, done) => {
    const fault = faultOfHead(request.raw, isHostAllowed)
    const go = () => {
      if (fault === undefined) done()
      else refuse(reply, ...fault)
    }
    admit(request, reply, { ...options, held, isServed: fault === undefined, done: go })
  })
  server.setErrorHandler((error: HttpError, _request, reply) => answerFailure(error, reply, calls))
  server.setNotFoundHandler((request, reply) => answerUnrouted(request, reply))
}
type Refusing = {
  readonly options: ServerOptions
  readonly held: Held
  readonly isHostAllowed: (host: string | undefined) => boolean
  readonly calls: HttpCalls
}

function addEndpoints(server: FastifyInstance, calls: HttpCalls, state: ServerState): void {
  for (const [path, endpoint] of ENDPOINTS)
    server.post<{ Body: Body | undefined }>(path, (request, reply) => {
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
    const asked = maxLagOf(request.url)
    if ('wrong' in asked) return refuse(reply, 400, asked.wrong)
    const { status, reasons, details } = await options.readiness(asked.maxLagMs)
    return reply.code(status === 'unready' ? 503 : 200).send({ status, reasons, ...details })
  })
}

const sendFile = (reply: FastifyReply, file: PageFile | undefined): FastifyReply =>
  file === undefined ? refuse(reply, 404, 'not found') : reply.headers(file.headers).send(file.body)

type HttpError = Error & { readonly statusCode?: number }
function answerFailure(error: HttpError, reply: FastifyReply, calls: HttpCalls): FastifyReply {
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

type Admission = Pick<ServerOptions, 'limiter' | 'visits' | 'trustedProxies'> & {
  readonly held: Held
  /** By its headers. */
  readonly isServed: boolean
  readonly done: () => void
}

/**
 * JSON-RPC pays when its body is read. Everything else pays here, from a purse of its own: a load balancer asks for health while its
 * clients are refused. A long body of it is not read.
 */
function admit(request: FastifyRequest, reply: FastifyReply, admission: Admission): void {
  const { trustedProxies, done } = admission
  const { raw } = request
  const address = addressOf(raw, trustedProxies)
  const isCall =
    admission.isServed &&
    request.method === 'POST' &&
    ENDPOINTS.has(pathOf(request.url)) &&
    isJsonType(raw.headers['content-type'])
  const purse = isCall ? admission.limiter : admission.visits
  const held = purse.held(address)
  if (held !== undefined) {
    reply.hijack()
    admission.held.hold(held, { request: raw, response: reply.raw, headers: {} })
    return
  }
  if (isCall) {
    done()
    return
  }
  const isUnread = isLong(raw)
  if (isUnread) {
    reply.header('connection', 'close')
    stopParsing(raw.socket)
    reply.raw.once('finish', () => raw.socket.destroy())
  }
  void Promise.resolve(purse.charge(address, isUnread ? UNREAD_POINTS : 1)).then((charge) => {
    if (charge.isAllowed) done()
    else refuse(reply.headers(headersOfRefusal(charge)), 429, 'too many requests')
  })
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
    .send({ jsonrpc: '2.0', id: null, error: unavailable(message, reason).toObject() })
}

function refuse(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type('text/plain; charset=utf-8').send(`${text}\n`)
}
