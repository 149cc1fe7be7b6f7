/** WebSocket upgrades: admission of requests, and the service on each path. */
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Endpoint } from '../../engine/chain/types.ts'
import type { ApiKeys } from '../core/api-keys.ts'
import type { Responder } from '../core/exchange.ts'
import type { Limits } from '../core/limits.ts'
import { clientAddress, isTrusted, type TrustedProxies } from '../limiter/address.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { readKey, UNKNOWN_KEY } from './callers.ts'
import { hostFault } from './hosts.ts'
import { addressOf, ENDPOINTS, pathOf } from './http.ts'
import { hasUnknownKey, type Incoming } from './incoming.ts'
import type { Intake } from './intake.ts'
import { type MessageLimits, serveMessages } from './messages.ts'
import type { Outgoing } from './outgoing.ts'
import type { ServerState } from './server-state.ts'
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
  /** Allowed origins of browsers, or '*'. */
  readonly cors: readonly string[]
  readonly trustedProxies: TrustedProxies
  readonly apiKeys?: ApiKeys | undefined
  readonly respond: Responder
  readonly nonRpcRequests: Pick<Limiter, 'charge' | 'throttled' | 'owe'>
  /** Handler of WebSocket /feed; undefined: not served. */
  readonly feed: FeedHandler | undefined
  /** undefined: not served. */
  readonly status?: StatusPage | undefined
  readonly isHostAllowed: (host: string | undefined) => boolean
  readonly state: ServerState
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly intake: Intake
}

/** Opens a session of /feed for the URL of a request. The default `status` of a refusal is 400. */
export type FeedHandler = (
  url: string | undefined,
  visitor: FeedVisitor,
) => FeedSession | { readonly wrong: string; readonly status?: number }
/** Visitor, as its handshake describes it. */
export type FeedVisitor = {
  /** Address of the client behind trusted proxies. */
  readonly address: string
  /** An untrusted peer claims to forward for another client. */
  readonly isForwarded: boolean
  /** TLS up to this node or to a trusted proxy. */
  readonly isSecure: boolean
  readonly token: string | undefined
}
/** Answers a request to copy this node's state, by its URL. */
export type BootstrapHandler = (
  url: string | undefined,
  visitor: FeedVisitor,
) => Promise<{
  readonly status: number
  /** Reason if there are no bytes. */
  readonly wrong?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly bytes?: Uint8Array<ArrayBuffer>
}>
export type FeedSession = {
  readonly open: Open
  /** Headers of the handshake's response. */
  readonly headers: readonly string[]
  /** Bytes that the subscriber receives at once. */
  readonly replayBytes: number
}

/**
 * Takes over a handshake from another port of the node, after checks of Host and Origin. The
 * connection serves JSON-RPC or the given handler.
 */
export type Adopt = (upgrade: Upgrade, what: Endpoint | Open) => void

/** Bytes of a replay for one point. */
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
  const isFromTrustedProxy = isTrusted(
    clientAddress(socket.remoteAddress, undefined, trusted),
    trusted,
  )
  const names = Array.isArray(forwardedFor) ? forwardedFor.join(',') : forwardedFor
  const token = headers[tokenHeader]
  return {
    address: clientAddress(socket.remoteAddress, names, trusted),
    isForwarded: !isFromTrustedProxy && (names ?? proto ?? forwarded) !== undefined,
    isSecure: 'encrypted' in socket || (isFromTrustedProxy && proto === 'https'),
    token: typeof token === 'string' ? token : undefined,
  }
}

export function serveWebSockets(
  http: Server,
  options: WebSocketOptions,
): { readonly webSockets: WebSockets; readonly adopt: Adopt } {
  const { limits, state, feed, status, nonRpcRequests } = options
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
      const feedSession = feed(request.url, visitorOf(request, options.trustedProxies))
      if ('wrong' in feedSession) return refusal(feedSession.status ?? 400, feedSession.wrong)
      const points = Math.ceil(feedSession.replayBytes / REPLAY_POINT_BYTES)
      if (points > 0) nonRpcRequests.owe(address, points)
      const { headers } = feedSession
      return webSockets.accept({ ...upgraded, headers }, limits.feedQueueBytes, feedSession.open)
    }
    if (path === LIVE_PATH && status !== undefined) return adopt(upgraded, status.live)
    if (endpoint === undefined) return refusal(404, 'not found')
    return adopt(upgraded, endpoint)
  }
  // Each handshake is charged before its checks, because it costs more than a small request.
  http.on('upgrade', async (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const { apiKeys } = options
    if (apiKeys !== undefined) readKey(request as Incoming, apiKeys)
    const address = addressOf(request, options.trustedProxies)
    const charge =
      nonRpcRequests.throttled(address) === undefined
        ? await nonRpcRequests.charge(address, 1)
        : { isAllowed: false }
    if (charge.isAllowed) upgrade(request, socket, head, address)
    else refuseUpgrade(socket, 429, 'too many requests')
  })
  return { webSockets, adopt }
}
