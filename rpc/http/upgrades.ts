/** Requests to become a WebSocket: who may, and what is served on it. */
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { clientAddress, isTrusted, type TrustedProxies } from '../seam/address.ts'
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
import { isOwnOrigin, LIVE_PATH, type StatusPage } from './status-page.ts'
import type { Unsent } from './unsent.ts'
import {
  createWebSockets,
  type Open,
  refuseUpgrade,
  type Shared,
  type Upgrade,
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
  /** undefined: not served. */
  readonly status?: StatusPage | undefined
  readonly isHostAllowed: (host: string | undefined) => boolean
  readonly state: ServerState
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly intake: Intake
}

/** Who stands at /feed, by the URL of its request. `status`: 400 where it is left out. */
export type FeedDoor = (
  url: string | undefined,
  visitor: FeedVisitor,
) => FeedVisit | { readonly wrong: string; readonly status?: number }
/** As its handshake says. */
export type FeedVisitor = {
  /** Behind trusted proxies. */
  readonly address: string
  /** Somebody who is not trusted says that it asks for another one. */
  readonly isForwarded: boolean
  /** TLS to here, or to a trusted proxy. */
  readonly isSecure: boolean
  readonly token: string | undefined
}
/** Who may copy the state of this node, and what it is sent: by the URL of its request. */
export type BootstrapDoor = (
  url: string | undefined,
  visitor: FeedVisitor,
) => Promise<{
  readonly status: number
  /** Why there are no bytes. */
  readonly wrong?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly bytes?: Uint8Array<ArrayBuffer>
}>
export type FeedVisit = {
  readonly open: Open
  /** Of the answer to the handshake. */
  readonly headers: readonly string[]
  /** What it gets at once. */
  readonly replayBytes: number
}

/** Takes a handshake of another port of the node, whose Host and Origin are judged: JSON-RPC is served on it, or what is given. */
export type Adopt = (upgrade: Upgrade, what: Endpoint | Open) => void

/** Of a replay, for a point. */
const REPLAY_POINT_BYTES = 65_536

/** Header of a handshake for the enriched feed. */
export const TOKEN_HEADER = 'x-feed-token'
/** Header of a request for /bootstrap. */
export const BOOTSTRAP_HEADER = 'x-bootstrap-token'

export function visitorOf(
  { socket, headers }: IncomingMessage,
  trusted: TrustedProxies,
  tokenHeader = TOKEN_HEADER,
): FeedVisitor {
  const { 'x-forwarded-for': forwardedFor, 'x-forwarded-proto': proto, forwarded } = headers
  const isHandedOn = isTrusted(clientAddress(socket.remoteAddress, undefined, trusted), trusted)
  const names = Array.isArray(forwardedFor) ? forwardedFor.join(',') : forwardedFor
  const token = headers[tokenHeader]
  return {
    address: clientAddress(socket.remoteAddress, names, trusted),
    isForwarded: !isHandedOn && (names ?? proto ?? forwarded) !== undefined,
    isSecure: 'encrypted' in socket || (isHandedOn && proto === 'https'),
    token: typeof token === 'string' ? token : undefined,
  }
}

export function serveWebSockets(
  http: Server,
  options: WebSocketOptions,
): { readonly webSockets: WebSockets; readonly adopt: Adopt } {
  const { limits, state, feed, status, visits } = options
  const webSockets = createWebSockets(options)
  const isOriginAllowed = ({ origin, host }: IncomingMessage['headers']) =>
    origin === undefined ||
    options.cors.includes('*') ||
    options.cors.includes(origin) ||
    isOwnOrigin(origin, host)
  const adopt: Adopt = (upgraded, what) => {
    if (state.paused !== undefined) return refuseUpgrade(upgraded.socket, 503, state.paused)
    webSockets.accept(
      upgraded,
      limits.sendQueueBytes,
      typeof what === 'string'
        ? (connection) => serveMessages(connection, { ...options, endpoint: what })
        : what,
    )
  }
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer, address: string) => {
    const refusal = (status: number, reason: string) => refuseUpgrade(socket, status, reason)
    const fault = hostFault(request)
    if (fault !== undefined) return refusal(400, fault)
    if (!options.isHostAllowed(request.headers.host)) return refusal(403, 'invalid host specified')
    if (!isOriginAllowed(request.headers)) return refusal(403, 'origin not allowed')
    if (hasUnknownKey(request)) return refusal(401, UNKNOWN_KEY)
    const path = pathOf(request.url)
    const endpoint = ENDPOINTS.get(path)
    const upgraded = { request, socket, head, address }
    if (path === '/feed' && feed !== undefined) {
      const visit = feed(request.url, visitorOf(request, options.trustedProxies))
      if ('wrong' in visit) return refusal(visit.status ?? 400, visit.wrong)
      const points = Math.ceil(visit.replayBytes / REPLAY_POINT_BYTES)
      if (points > 0) visits.owe(address, points)
      const { headers } = visit
      return webSockets.accept({ ...upgraded, headers }, limits.feedQueueBytes, visit.open)
    }
    if (path === LIVE_PATH && status !== undefined) return adopt(upgraded, status.live)
    if (endpoint === undefined) return refusal(404, 'not found')
    return adopt(upgraded, endpoint)
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
  return { webSockets, adopt }
}
