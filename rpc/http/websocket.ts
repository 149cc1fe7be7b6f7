/** WebSockets of the server. Only this file imports ws. A slow or silent peer is closed. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Message } from '../core/client.ts'
import { openLocalConcurrencyLimit } from '../core/concurrency-limit.ts'
import type { Part } from '../core/exchange.ts'
import { createFifo } from '../core/fifo.ts'
import type { Limits } from '../core/limits.ts'
import type { Prepaid } from '../core/prepaid.ts'
import { limiterKey } from '../limiter/address.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import { writeFrames } from '../wire/internals.ts'
import type { Intake } from './intake.ts'
import { createMessageQueue, type MessageQueue, type WebSocketFrames } from './message-queue.ts'
import { createMeters, type MeterOptions } from './meter.ts'
import type { Outgoing } from './outgoing.ts'
import { createReading, keepAlive, type Reading, type Stop, type Times } from './reading.ts'
import type { Unsent } from './unsent.ts'

/** 1001: going away; 1011: error of the server; 1013: try again later (too slow). */
export type CloseCode = 1000 | 1001 | 1008 | 1011 | 1013

/** An open connection. */
export interface Connection {
  /** Address of the client behind trusted proxies. */
  readonly address: string
  /** Aborted when the connection has ended. */
  readonly signal: AbortSignal
  /** Bytes not yet taken by the network. */
  readonly queuedBytes: number
  /**
   * Sends text or binary, by the type of `data`. False: not sent, because the connection has ended
   * or too many bytes wait. In the latter case the connection is closed with code 1013.
   */
  send(data: string | Bytes): boolean
  /** Sends many text messages in one write, with the result of `send`. */
  sendAll(messages: readonly Message[]): boolean
  /** Sends the response to a message, with the result of `send`. */
  respond(text: string): boolean
  /** Too many responses are unread, so no message may be answered before `onDrained`. */
  readonly isUnread: boolean
  /**
   * Sends a large text message in fragments. `done` is called once, when the system has taken the
   * message or never will. The connection is closed with code 1013 if too many bytes wait behind
   * another large message.
   */
  sendParts(parts: readonly Part[], done: () => void): void
  /**
   * Stops reading. Messages of a chunk already read are still delivered, one in each turn of the
   * event loop.
   */
  stopReading(why: Stop): void
  /** Removes a reason to stop, and reads if none is left. */
  readOn(why: Stop): void
  close(code: CloseCode, reason: string): void
}
export type ConnectionHandlers = {
  /**
   * Receives a whole message and owns `data`. Connections without this handler expect no messages.
   * @param prepaid points charged for the message on arrival
   */
  onMessage?(data: Buffer, isBinary: boolean, prepaid: Prepaid): void
  /** Called when unread responses have been read. */
  onDrained?(): void
  onClose?(code: number, reason: string): void
}
export type Open = (connection: Connection) => ConnectionHandlers

export type Upgrade = {
  readonly request: IncomingMessage
  readonly socket: Duplex
  readonly head: Buffer
  readonly address: string
  /** Additional headers of the response. */
  readonly headers?: readonly string[]
}

export interface WebSockets {
  readonly size: number
  /**
   * Accepts an upgrade. Connections are counted before the handshake: too many of an address give
   * 429, too many in total 503.
   */
  accept(upgrade: Upgrade, queueBytes: number, open: Open): void
  /** @param isMeant chooses connections by their address or pseudo-address (default: all) */
  closeAll(code: CloseCode, reason: string, isMeant?: (address: string) => boolean): void
}

/**
 * Close reason of a peer that does not read. It has `unsentMs` to read the earlier bytes, then time
 * for the close response.
 */
const TOO_SLOW = 'too slow: too many bytes wait to be sent'
/** Milliseconds for the response to a close frame. */
const CLOSE_MS = 2_000

export type WebSocketLimits = Times &
  Pick<
    Limits,
    | 'bodyBytes'
    | 'messageFragments'
    | 'messageChunks'
    | 'requestMs'
    | 'connectionsTotal'
    | 'connectionsPerClient'
    | 'sendAnswersBytes'
    | 'unreadBytes'
    | 'controlFrames'
  >

/** Resources that all connections share. */
export type Shared = {
  readonly limits: WebSocketLimits
  /** Left out: the limits count this server only. */
  readonly concurrencyLimits?: OpenConcurrencyLimit | undefined
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly limiter: MeterOptions['limiter']
  readonly intake: Intake
  readonly onBug: (error: unknown) => void
  /** Monotonic milliseconds. */
  readonly now: () => number
}

export function createWebSockets(shared: Shared): WebSockets {
  const { limits, now, concurrencyLimits = openLocalConcurrencyLimit } = shared
  const options = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: limits.bodyBytes,
    maxFragments: limits.messageFragments,
    maxBufferedChunks: limits.messageChunks,
    // A chunk of 64 kB has up to 10,000 frames. One is handled in each turn of the event loop, so
    // that other connections do not wait.
    allowSynchronousEvents: false,
    closeTimeout: CLOSE_MS, // `closeTimeout` is missing in the types of ws.
  }
  const server = new WebSocketServer(options)
  const more = new WeakMap<IncomingMessage, readonly string[]>()
  server.on('headers', (headers, request) => headers.push(...(more.get(request) ?? [])))
  const meters = createMeters({ ...shared, messageMs: limits.requestMs, now })
  const open = new Set<Connection>()
  /** Concurrency limit of connections, handshakes included. */
  const connections = concurrencyLimits('connections', {
    perClient: limits.connectionsPerClient,
    total: limits.connectionsTotal,
  })

  return {
    get size() {
      return open.size
    },
    accept({ request, socket, head, address, headers }, queueBytes, handle) {
      if (socket.destroyed) return
      if (connections.total >= limits.connectionsTotal)
        return refuseUpgrade(socket, 503, 'too many WebSocket connections')
      const giveBack = connections.take(limiterKey(address))
      if (giveBack === undefined)
        return refuseUpgrade(socket, 429, 'too many WebSocket connections from this address')
      if (headers !== undefined) more.set(request, headers)
      // The socket closes exactly once, with or without a finished handshake.
      socket.once('close', giveBack)
      server.handleUpgrade(request, socket, head, (webSocket) => {
        const { connection, received } = serve(webSocket, {
          ...shared,
          socket,
          address,
          queueBytes,
          open: handle,
          meters,
          now,
        })
        socket.on('data', (chunk: Buffer) => received(chunk.length))
        open.add(connection)
        connection.signal.addEventListener('abort', () => open.delete(connection))
      })
    },
    closeAll(code, reason, isMeant = () => true) {
      for (const connection of open) if (isMeant(connection.address)) connection.close(code, reason)
    },
  }
}

/** Refuses an upgrade and ends the socket. */
export function refuseUpgrade(socket: Duplex, status: number, reason: string): void {
  // A peer that has disconnected needs no response.
  socket.on('error', () => socket.destroy())
  socket.once('finish', () => socket.destroy())
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${reason.length}\r\n\r\n${reason}`,
  )
}

const NOTHING = Buffer.alloc(0)

type ServeOptions = Shared & {
  readonly socket: Duplex
  readonly address: string
  readonly queueBytes: number
  readonly open: Open
  readonly meters: ReturnType<typeof createMeters>
  readonly now: () => number
}

function serve(
  webSocket: WebSocket,
  options: ServeOptions,
): { readonly connection: Connection; readonly received: (bytes: number) => void } {
  const { limits, address, now } = options
  const ended = new AbortController()
  const reading = createReading(webSocket, now)
  const cut = (why: 'late' | 'room') => {
    if (why === 'late') webSocket.close(1008, 'a message was not complete in time')
    else {
      webSocket.close(1013, 'too many bytes are being received')
      // The buffered bytes are released now, before the peer's close response.
      setImmediate(() => webSocket.terminate())
    }
  }
  const meter = options.meters.open({ address, reading, cut })
  const queue = createMessageQueue({
    ...options,
    frames: framesOf(webSocket, options.socket),
    bounds: {
      queueBytes: options.queueBytes,
      responsesBytes: limits.sendAnswersBytes,
      unreadBytes: limits.unreadBytes,
    },
    onUnread(isUnread) {
      if (isUnread) reading.stop('unread')
      else {
        reading.go('unread')
        handlers.onDrained?.()
      }
    },
  })
  const connection = connectionOf(webSocket, { address, queue, reading, ended })
  const handlers = options.open(connection)
  const isTooOften = createRate(limits.controlFrames, now)
  const onControl = (payload: Buffer) => {
    meter.control(payload.length)
    if (isTooOften()) webSocket.close(1008, 'too many control frames')
  }
  webSocket.on('ping', onControl)
  webSocket.on('pong', onControl)
  const stopPings = keepAlive(webSocket, limits, reading)
  // ws closes the connection after an error by itself, with the matching code. Without a listener
  // the error would be thrown.
  webSocket.on('error', () => {})
  const deliver = inOrder((data: Buffer, isBinary: boolean, prepaid: Prepaid) => {
    if (webSocket.readyState !== WebSocket.OPEN) return
    if (handlers.onMessage === undefined) onControl(NOTHING)
    else handlers.onMessage(data, isBinary, prepaid)
  })
  webSocket.on('message', (data, isBinary) => {
    if (webSocket.readyState !== WebSocket.OPEN) return
    deliver(data as Buffer, isBinary, meter.complete((data as Buffer).length))
  })
  webSocket.once('close', (code, reason) => {
    stopPings()
    meter.end()
    ended.abort()
    queue.end()
    handlers.onClose?.(code, reason.toString())
  })
  return { connection, received: meter.received }
}

type Deliver<P> = (data: Buffer, isBinary: boolean, prepaid: P) => void
/**
 * Delivers messages in order. A pending charge delays the messages behind it, which then follow one
 * per turn of the event loop. The queue is bounded by the bytes read before reading stopped for the
 * charge.
 */
function inOrder(deliver: Deliver<Prepaid>): Deliver<Prepaid | Promise<Prepaid>> {
  const waiting = createFifo<() => Promise<void>>()
  let isWaiting = false
  async function deliverAll(): Promise<void> {
    isWaiting = true
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      await next()
      await new Promise((resolve) => setImmediate(resolve))
    }
    isWaiting = false
  }
  return (data, isBinary, prepaid) => {
    if (!isWaiting && !(prepaid instanceof Promise)) {
      deliver(data, isBinary, prepaid)
      return
    }
    waiting.push(async () => deliver(data, isBinary, await prepaid))
    if (!isWaiting) void deliverAll()
  }
}

function connectionOf(
  webSocket: WebSocket,
  {
    address,
    queue,
    reading,
    ended,
  }: {
    readonly address: string
    readonly queue: MessageQueue
    readonly reading: Reading
    readonly ended: AbortController
  },
): Connection {
  let isLeft = false
  const isOpen = () => !isLeft && webSocket.readyState === WebSocket.OPEN
  const tooSlow = () => {
    isLeft = true
    reading.stop('slow')
    queue.leave(() => {
      reading.go('slow')
      webSocket.close(1013, TOO_SLOW)
    })
  }
  const checked = (isSent: boolean) => {
    if (!isSent) tooSlow()
    return isSent
  }
  return {
    address,
    signal: ended.signal,
    get queuedBytes() {
      return queue.waitingBytes
    },
    get isUnread() {
      return queue.isUnread
    },
    send: (data) => isOpen() && checked(queue.send(data)),
    sendAll: (messages) => isOpen() && checked(queue.sendAll(messages)),
    respond: (text) => isOpen() && checked(queue.respond(text)),
    sendParts(parts, done) {
      if (!isOpen() || !checked(queue.sendParts(parts, done))) done()
    },
    stopReading: reading.stop,
    readOn: reading.go,
    close: (code, reason) => webSocket.close(code, reason),
  }
}

/** Creates a check that tells whether an event occurred more than `max` times in a second. */
function createRate(max: number, now: () => number): () => boolean {
  let since = 0
  let count = 0
  return () => {
    if (now() - since > 1_000) {
      since = now()
      count = 0
    }
    return ++count > max
  }
}

function framesOf(webSocket: WebSocket, socket: Duplex): WebSocketFrames {
  return {
    get isOpen() {
      return webSocket.readyState === WebSocket.OPEN
    },
    get bufferedBytes() {
      return webSocket.bufferedAmount
    },
    send: (data, done) => webSocket.send(data, done),
    onceTaken(go) {
      if (socket.writableNeedDrain) socket.once('drain', go)
      else go()
    },
    sendFrames: (frames, done) => writeFrames(socket, frames, done),
    sendFragment: (part, isLast, done) =>
      webSocket.send(part, { binary: false, fin: isLast }, done),
    cut: () => webSocket.terminate(),
  }
}
