/** Requests to become a WebSocket: who may, and what is served on it. */
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Limiter } from '../limiter/limiter.ts'
import type { TrustedProxies } from '../seam/address.ts'
import type { ApiKeys } from '../seam/api-keys.ts'
import type { Answerer } from '../seam/exchange.ts'
import type { Limits } from '../seam/limits.ts'
import { readKey, UNKNOWN_KEY } from './callers.ts'
import { hostFault } from './hosts.ts'
import { addressOf, ENDPOINTS, pathOf } from './http.ts'
import { hasUnknownKey, type Incoming } from './incoming.ts'
import type { Intake } from './intake.ts'
import { type MessageLimits, serveMessages } from './messages.ts'
import type { Outgoing } from './outgoing.ts'
import type { ServerState } from './state.ts'
import type { Unsent } from './unsent.ts'
import {
  createWebSockets,
  type Open,
  refuseUpgrade,
  type Shared,
  type WebSocketLimits,
  type WebSockets,
} from './websocket.ts'

export type UpgradeLimits = WebSocketLimits &
  MessageLimits &
  Pick<Limits, 'feedQueueBytes' | 'sendQueueBytes'>

type WebSocketOptions = Omit<Shared, 'limits'> & {
  readonly limits: UpgradeLimits
  /** Origins of browsers, or '*'. */
  readonly cors: readonly string[]
  readonly trustedProxies: TrustedProxies
  readonly apiKeys?: ApiKeys | undefined
  readonly answer: Answerer
  readonly visits: Pick<Limiter, 'charge' | 'held' | 'owe'>
  /** WebSocket /feed; undefined: not served. */
  readonly feed: FeedDoor | undefined
  readonly isHostAllowed: (host: string | undefined) => boolean
  readonly state: ServerState
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly intake: Intake
}

/** Who stands at /feed, by the URL of its request. */
export type FeedDoor = (url: string | undefined) => FeedVisit | { readonly wrong: string }
export type FeedVisit = {
  readonly open: Open
  /** Of the answer to the handshake. */
  readonly headers: readonly string[]
  /** What it gets at once. */
  readonly replayBytes: number
}

/** Of a replay, for a point. */
const REPLAY_POINT_BYTES = 65_536

export function serveWebSockets(http: Server, options: WebSocketOptions): WebSockets {
  const { limits, state, feed, visits } = options
  const webSockets = createWebSockets(options)
  const isOriginAllowed = (origin: string | undefined) =>
    origin === undefined || options.cors.includes('*') || options.cors.includes(origin)
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer, address: string) => {
    const refusal = (status: number, reason: string) => refuseUpgrade(socket, status, reason)
    const { host, origin } = request.headers
    const fault = hostFault(request)
    if (fault !== undefined) return refusal(400, fault)
    if (!options.isHostAllowed(host)) return refusal(403, 'invalid host specified')
    if (!isOriginAllowed(origin)) return refusal(403, 'origin not allowed')
    if (hasUnknownKey(request)) return refusal(401, UNKNOWN_KEY)
    const path = pathOf(request.url)
    const endpoint = ENDPOINTS.get(path)
    const upgraded = { request, socket, head, address }
    if (path === '/feed' && feed !== undefined) {
      const visit = feed(request.url)
      if ('wrong' in visit) return refusal(400, visit.wrong)
      const points = Math.ceil(visit.replayBytes / REPLAY_POINT_BYTES)
      if (points > 0) visits.owe(address, points)
      const { headers } = visit
      return webSockets.accept({ ...upgraded, headers }, limits.feedQueueBytes, visit.open)
    }
    if (endpoint === undefined) return refusal(404, 'not found')
    if (state.paused !== undefined) return refusal(503, state.paused)
    return webSockets.accept(upgraded, limits.sendQueueBytes, (connection) =>
      serveMessages(connection, { ...options, endpoint }),
    )
  }
  // A handshake costs more than a small request, whatever becomes of it.
  http.on('upgrade', async (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const { apiKeys } = options
    if (apiKeys !== undefined) readKey(request as Incoming, apiKeys)
    const address = addressOf(request, options.trustedProxies)
    const charge =
      visits.held(address) === undefined ? await visits.charge(address, 1) : { isAllowed: false }
    if (charge.isAllowed) upgrade(request, socket, head, address)
    else refuseUpgrade(socket, 429, 'too many requests')
  })
  return webSockets
}
