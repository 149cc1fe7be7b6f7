/** The server's WebSockets; the only file that imports ws. A slow or silent peer is closed, never waited for. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { limiterKey } from '../seam/address.ts'
import { openOwnCaps } from '../seam/caps.ts'
import type { Message } from '../seam/client.ts'
import type { Part } from '../seam/exchange.ts'
import { createFifo } from '../seam/fifo.ts'
import type { Limits } from '../seam/limits.ts'
import type { Paid } from '../seam/paid.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'
import type { Intake } from './intake.ts'
import { createMessageQueue, type MessageQueue, type WebSocketFrames } from './message-queue.ts'
import { createMeters, type MeterOptions } from './meter.ts'
import type { Outgoing } from './outgoing.ts'
import { createReading, keepAlive, type Reading, type Stop, type Times } from './reading.ts'
import type { Unsent } from './unsent.ts'

/** 1001 going away, 1011 our fault, 1013 try again later (too slow). */
export type CloseCode = 1000 | 1001 | 1008 | 1011 | 1013

/** One open connection. */
export interface Connection {
  /** Of the client behind trusted proxies. */
  readonly address: string
  /** Aborted when the connection has ended, for whatever reason. */
  readonly signal: AbortSignal
  /** Bytes not yet taken by the network. */
  readonly queuedBytes: number
  /**
   * Text or binary, by the type of `data`. False: not sent, because the connection has ended, or because more than the allowed bytes
   * wait already: then it is closed with 1013.
   */
  send(data: string | Bytes): boolean
  /** The same for many text messages, in one write. */
  sendAll(messages: readonly Message[]): boolean
  /** The same for the answer to a message. */
  answer(text: string): boolean
  /** More answers are unread than may be: no message shall be answered before `onRoom`. */
  readonly isUnread: boolean
  /**
   * A large text message, in fragments. `done` once, when it is with the system or never will be; closed with 1013 when too much waits
   * behind one that is on its way.
   */
  sendParts(parts: readonly Part[], done: () => void): void
  /** A chunk already read is still delivered, a message in each turn of the loop. */
  stopReading(why: Stop): void
  /** Reads, when nothing else speaks against it. */
  readOn(why: Stop): void
  close(code: CloseCode, reason: string): void
}
export type ConnectionHandlers = {
  /** A whole message; `data` is the receiver's to keep. `paid`: what was charged for it while it came in. Without it none is expected. */
  onMessage?(data: Buffer, isBinary: boolean, paid: Paid): void
  /** Answers were unread, and are read now. */
  onRoom?(): void
  onClose?(code: number, reason: string): void
}
export type Open = (connection: Connection) => ConnectionHandlers

export type Upgrade = {
  readonly request: IncomingMessage
  readonly socket: Duplex
  readonly head: Buffer
  readonly address: string
  /** More of the answer's headers. */
  readonly headers?: readonly string[]
}

export interface WebSockets {
  readonly size: number
  /** Counts before any handshake work: too many of one address 429, of all 503. */
  accept(upgrade: Upgrade, queueBytes: number, open: Open): void
  /** @param isMeant by its address, or by what stands for it; by default all are */
  closeAll(code: CloseCode, reason: string, isMeant?: (address: string) => boolean): void
}

/** What a peer is told that does not read what it is sent: `unsentMs` to read so far, then for the answer. */
const TOO_SLOW = 'too slow: too many bytes wait to be sent'
/** For the answer to a close frame. */
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

/** What all connections share. */
export type Shared = {
  readonly limits: WebSocketLimits
  /** Left out: nobody else counts. */
  readonly caps?: OpenCaps | undefined
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly limiter: MeterOptions['limiter']
  readonly intake: Intake
  readonly onBug: (error: unknown) => void
  /** Monotonic milliseconds. */
  readonly now: () => number
}

export function createWebSockets(shared: Shared): WebSockets {
  const { limits, now, caps = openOwnCaps } = shared
  const options = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: limits.bodyBytes,
    maxFragments: limits.messageFragments,
    maxBufferedChunks: limits.messageChunks,
    // A chunk of 64 kB has 10,000 of the smallest frames: one in each turn of the loop, so that nobody waits for all of them.
    allowSynchronousEvents: false,
    closeTimeout: CLOSE_MS, // Known to ws, not yet to its types.
  }
  const server = new WebSocketServer(options)
  const more = new WeakMap<IncomingMessage, readonly string[]>()
  server.on('headers', (headers, request) => headers.push(...(more.get(request) ?? [])))
  const meters = createMeters({ ...shared, messageMs: limits.requestMs, now })
  const open = new Set<Connection>()
  /** Connections, handshakes included. */
  const connections = caps('connections', {
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
      // The socket ends exactly once, with or without a finished handshake.
      socket.once('close', giveBack)
      server.handleUpgrade(request, socket, head, (webSocket) => {
        const { connection, received } = serve(webSocket, {
          ...shared,
          ...{ socket, address, queueBytes, open: handle, meters, now },
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

/** Answers an upgrade that will not happen, and ends the socket. */
export function refuseUpgrade(socket: Duplex, status: number, reason: string): void {
  // A peer that is gone already is not worth a word.
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
    if (why === 'late') webSocket.close(1008, 'a message did not come in time')
    else {
      webSocket.close(1013, 'too many bytes are being received')
      // What it holds goes now, not when its peer has answered.
      setImmediate(() => webSocket.terminate())
    }
  }
  const meter = options.meters.open({ address, reading, cut })
  const queue = createMessageQueue({
    ...options,
    frames: framesOf(webSocket, options.socket),
    bounds: {
      queueBytes: options.queueBytes,
      answersBytes: limits.sendAnswersBytes,
      unreadBytes: limits.unreadBytes,
    },
    onUnread(isUnread) {
      if (isUnread) reading.stop('unread')
      else {
        reading.go('unread')
        handlers.onRoom?.()
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
  // ws closes after an error by itself, with the code that says why; without a listener the error would be thrown.
  webSocket.on('error', () => {})
  const deliver = inOrder((data: Buffer, isBinary: boolean, paid: Paid) => {
    if (webSocket.readyState !== WebSocket.OPEN) return
    if (handlers.onMessage === undefined) onControl(NOTHING)
    else handlers.onMessage(data, isBinary, paid)
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

type Deliver<P> = (data: Buffer, isBinary: boolean, paid: P) => void
/**
 * A message whose charge is not answered yet holds up those behind it, which follow one in a turn of the loop. Bounded by what was read
 * when reading stopped for the charge.
 */
function inOrder(deliver: Deliver<Paid>): Deliver<Paid | Promise<Paid>> {
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
  return (data, isBinary, paid) => {
    if (!isWaiting && !(paid instanceof Promise)) {
      deliver(data, isBinary, paid)
      return
    }
    waiting.push(async () => deliver(data, isBinary, await paid))
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
    answer: (text) => isOpen() && checked(queue.answer(text)),
    sendParts(parts, done) {
      if (!isOpen() || !checked(queue.sendParts(parts, done))) done()
    },
    stopReading: reading.stop,
    readOn: reading.go,
    close: (code, reason) => webSocket.close(code, reason),
  }
}

/** Whether something has happened more often than so many times in a second. */
function createRate(most: number, now: () => number): () => boolean {
  let since = 0
  let count = 0
  return () => {
    if (now() - since > 1_000) {
      since = now()
      count = 0
    }
    return ++count > most
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
    // Between two messages of ws, which writes each to the socket at once: without compression nothing waits inside of it.
    sendFrames: (frames, done) => socket.write(frames, done),
    sendFragment: (part, isLast, done) =>
      webSocket.send(part, { binary: false, fin: isLast }, done),
    cut: () => webSocket.terminate(),
  }
}
