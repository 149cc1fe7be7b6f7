/** WebSockets, both sides; the only file that imports ws. A slow or silent peer is closed, never waited for. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { limiterKey } from './address.ts'
import type { Part } from './exchange.ts'
import type { Limits } from './limits.ts'
import { createMessageQueue, type Frames, type QueueBounds } from './message-queue.ts'
import type { Outgoing } from './outgoing.ts'
import type { Unsent } from './unsent.ts'

/** 1001 going away, 1011 our fault, 1013 try again later (too slow). */
export type CloseCode = 1000 | 1001 | 1008 | 1011 | 1013

/** One open connection, either side. */
export interface Connection {
  /** Of the client behind trusted proxies; of the server on the client side: its URL. */
  readonly address: string
  /** The node's own: it takes no place of anyone's. */
  readonly isOwn: boolean
  /** Aborted when the connection has ended, for whatever reason. */
  readonly signal: AbortSignal
  /** Bytes not yet taken by the network. */
  readonly queuedBytes: number
  /**
   * Text or binary, by the type of `data`. False: not sent, because the connection has ended, or because more than the allowed bytes
   * wait already: then it is closed with 1013.
   */
  send(data: string | Bytes): boolean
  /**
   * A large text message, in fragments. `done` once, when it is with the system or never will be; closed with 1013 when too much waits
   * behind one that is on its way.
   */
  sendParts(parts: readonly Part[], done: () => void): void
  /** Stops reading; a chunk already read is still delivered. */
  pause(): void
  resume(): void
  close(code: CloseCode, reason: string): void
}
export type ConnectionHandlers = {
  /** A whole message; `data` is the receiver's to keep. */
  onMessage(data: Buffer, isBinary: boolean): void
  onClose?(code: number, reason: string): void
}
export type Open = (connection: Connection) => ConnectionHandlers

export type Upgrade = {
  readonly request: IncomingMessage
  readonly socket: Duplex
  readonly head: Buffer
  readonly address: string
  /** The node's own connection: outside the counts. */
  readonly isOwn: boolean
}

export interface WebSockets {
  readonly size: number
  /** Counts before any handshake work: too many of one address 429, of all 503. */
  accept(upgrade: Upgrade, queueBytes: number, open: Open): void
  closeAll(code: CloseCode, reason: string): void
}

/** For the handshake and for the answer to a close frame. */
const HANDSHAKE_MS = 10_000
const CLOSE_MS = 2_000

/** In the place of an address. */
const OWN = 'own'

type Bounds = QueueBounds & { readonly pingMs: number; readonly pongMs: number }
/** What all connections share. */
type Sending = {
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly onBug: (error: unknown) => void
}

export function createWebSockets(limits: Limits, sending: Sending): WebSockets {
  const options = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: limits.bodyBytes,
    closeTimeout: CLOSE_MS, // Known to ws, not yet to its types.
  }
  const server = new WebSocketServer(options)
  const open = new Set<Connection>()
  /** Connections of each address, handshakes included; an entry goes with its last connection. */
  const counts = new Map<string, number>()
  let total = 0

  return {
    get size() {
      return open.size
    },
    accept({ request, socket, head, address, isOwn }, queueBytes, handle) {
      if (socket.destroyed) return
      const key = isOwn ? OWN : limiterKey(address)
      const count = counts.get(key) ?? 0
      if (!isOwn && total >= limits.connectionsTotal)
        return refuseUpgrade(socket, 503, 'too many WebSocket connections')
      if (!isOwn && count >= limits.connectionsPerClient)
        return refuseUpgrade(socket, 429, 'too many WebSocket connections from this address')
      total++
      counts.set(key, count + 1)
      // The socket ends exactly once, with or without a finished handshake.
      socket.once('close', () => {
        total--
        const left = (counts.get(key) ?? 1) - 1
        if (left === 0) counts.delete(key)
        else counts.set(key, left)
      })
      const { pingMs, pongMs, sendAnswersBytes } = limits
      const bounds = { queueBytes, answersBytes: sendAnswersBytes, pingMs, pongMs }
      server.handleUpgrade(request, socket, head, (webSocket) => {
        const connection = serve(webSocket, { address, isOwn, bounds, sending, open: handle })
        open.add(connection)
        connection.signal.addEventListener('abort', () => open.delete(connection))
      })
    },
    closeAll(code, reason) {
      for (const connection of open) connection.close(code, reason)
    },
  }
}

/** Answers an upgrade that will not happen, and ends the socket. */
export function refuseUpgrade(socket: Duplex, status: number, reason: string): void {
  // A peer that is gone already is not worth a word.
  socket.on('error', () => socket.destroy())
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${reason.length}\r\n\r\n${reason}`,
  )
}

export type ConnectOptions = {
  readonly headers?: Readonly<Record<string, string>>
  /** Largest message; a larger one closes the connection with 1009. */
  readonly maxBytes: number
  readonly pingMs: number
  readonly pongMs: number
  onOpen?(): void
  onMessage(data: Buffer, isBinary: boolean): void
  /** Exactly once, also when the connection never opened. Connecting again is the caller's business. */
  onClose(code: number, reason: string): void
}

export type ClientSocket = {
  send(data: string | Bytes): void
  close(code: CloseCode, reason: string): void
}

/** Connects once. */
export function connectWebSocket(url: string, options: ConnectOptions): ClientSocket {
  const webSocket = new WebSocket(url, {
    headers: { ...options.headers },
    perMessageDeflate: false,
    handshakeTimeout: HANDSHAKE_MS,
    maxPayload: options.maxBytes,
  })
  let failure = ''
  webSocket.on('error', (error) => {
    failure = error.message
  })
  const onClose = (code: number, reason: string) => options.onClose(code, reason || failure)
  const early = (code: number, reason: Buffer) => onClose(code, reason.toString())
  webSocket.on('close', early)
  webSocket.once('open', () => {
    webSocket.off('close', early)
    attach(webSocket, options, { onMessage: options.onMessage, onClose })
    options.onOpen?.()
  })
  return {
    send(data) {
      if (webSocket.readyState === WebSocket.OPEN) webSocket.send(data)
    },
    close(code, reason) {
      if (webSocket.readyState === WebSocket.CONNECTING) webSocket.terminate()
      else webSocket.close(code, reason)
    },
  }
}

function serve(
  webSocket: WebSocket,
  options: {
    readonly address: string
    readonly isOwn: boolean
    readonly bounds: Bounds
    readonly sending: Sending
    readonly open: Open
  },
): Connection {
  const ended = new AbortController()
  const { bounds, sending } = options
  const queue = createMessageQueue({ ...sending, bounds, frames: framesOf(webSocket) })
  const tooSlow = () => webSocket.close(1013, 'too slow: too many bytes wait to be sent')
  const connection: Connection = {
    address: options.address,
    isOwn: options.isOwn,
    signal: ended.signal,
    get queuedBytes() {
      return queue.waitingBytes
    },
    send(data) {
      if (webSocket.readyState !== WebSocket.OPEN) return false
      const isSent = queue.send(data)
      if (!isSent) tooSlow()
      return isSent
    },
    sendParts(parts, done) {
      if (webSocket.readyState === WebSocket.OPEN && queue.sendParts(parts, done)) return
      if (webSocket.readyState === WebSocket.OPEN) tooSlow()
      done()
    },
    pause: () => webSocket.pause(),
    resume: () => webSocket.resume(),
    close: (code, reason) => webSocket.close(code, reason),
  }
  const { onMessage, onClose } = options.open(connection)
  attach(webSocket, bounds, {
    onMessage,
    onClose(code, reason) {
      ended.abort()
      queue.end()
      onClose?.(code, reason)
    },
  })
  return connection
}

function framesOf(webSocket: WebSocket): Frames {
  return {
    get isOpen() {
      return webSocket.readyState === WebSocket.OPEN
    },
    get bufferedBytes() {
      return webSocket.bufferedAmount
    },
    send: (data, done) => webSocket.send(data, done),
    sendFragment: (part, isLast, done) =>
      webSocket.send(part, { binary: false, fin: isLast }, done),
    cut: () => webSocket.terminate(),
  }
}

/** What both sides do with an open connection. */
function attach(
  webSocket: WebSocket,
  times: Pick<Bounds, 'pingMs' | 'pongMs'>,
  { onMessage, onClose }: ConnectionHandlers,
): void {
  const stopPings = keepAlive(webSocket, times)
  // ws closes after an error by itself, with the code that says why; without a listener the error would be thrown.
  webSocket.on('error', () => {})
  webSocket.on('message', (data, isBinary) => {
    if (webSocket.readyState === WebSocket.OPEN) onMessage(data as Buffer, isBinary)
  })
  webSocket.once('close', (code, reason) => {
    stopPings()
    onClose?.(code, reason.toString())
  })
}

/** A peer that leaves a ping unanswered is ended without a handshake: it is not there. */
function keepAlive(
  webSocket: WebSocket,
  { pingMs, pongMs }: Pick<Bounds, 'pingMs' | 'pongMs'>,
): () => void {
  let timer = setTimeout(ping, pingMs).unref()
  function ping() {
    webSocket.ping()
    timer = setTimeout(() => webSocket.terminate(), pongMs).unref()
  }
  webSocket.on('pong', () => {
    clearTimeout(timer)
    if (webSocket.readyState === WebSocket.OPEN) timer = setTimeout(ping, pingMs).unref()
  })
  return () => clearTimeout(timer)
}
