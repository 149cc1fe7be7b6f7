/**
 * JSON-RPC over one WebSocket, which opens with the first message, and reopens with the next
 * message after it closed.
 */
import { type RawData, WebSocket } from 'ws'
import { UpstreamError } from '../../engine/sources/upstream/error.ts'
import type { Transport } from '../../engine/sources/upstream/messages.ts'
import { reasonOf, reasonOfResponse } from '../../rpc/forwarding/failures.ts'
import { addressed } from '../../rpc/forwarding/posting.ts'

const HANDSHAKE_MS = 5_000
/**
 * A silent connection is pinged after this time, and closed if it stays silent for as long again.
 */
const PING_MS = 15_000

/** @param url a valid URL; its user and password move to a header */
export function openWebSocket(url: URL, maxBytes: number): Transport {
  const origin = `${url.protocol}//${url.host}`
  const waiting = createWaiting()
  let onPush = (_: unknown) => {}
  let onClose = () => {}
  let socket: Promise<WebSocket> | undefined
  let isClosed = false

  function open(): Promise<WebSocket> {
    return connect(url, maxBytes, {
      onMessage(message) {
        if (!waiting.respond(message)) onPush(message)
      },
      onEnd(error) {
        socket = undefined
        waiting.fail(error)
        onClose()
      },
    })
  }

  return {
    async exchange(message, ids, signal) {
      if (isClosed) throw new UpstreamError('unreachable', `${origin} is closed`)
      socket ??= open()
      const connected = await socket
      signal.throwIfAborted()
      const response = waiting.add(ids, signal)
      connected.send(message)
      return response
    },
    pushes: {
      onMessage(listener) {
        onPush = listener
      },
      onClose(listener) {
        onClose = listener
      },
    },
    close() {
      isClosed = true
      void socket?.then((made) => made.terminate()).catch(() => {})
    },
  }
}

function createWaiting() {
  /** Waiting messages by each of their ids. */
  const open = new Map<
    number,
    { readonly resolve: (response: unknown) => void; readonly reject: (reason: unknown) => void }
  >()
  return {
    async add(ids: readonly number[], signal: AbortSignal): Promise<unknown> {
      const response = Promise.withResolvers<unknown>()
      for (const id of ids) open.set(id, response)
      const onAbort = () => response.reject(signal.reason)
      signal.addEventListener('abort', onAbort)
      try {
        return await response.promise
      } finally {
        signal.removeEventListener('abort', onAbort)
        for (const id of ids) open.delete(id)
      }
    },
    /** Returns false if no message waits for this response. */
    respond(message: unknown): boolean {
      const { id } = (Array.isArray(message) ? message[0] : message) as { readonly id?: unknown }
      const mine = typeof id === 'number' ? open.get(id) : undefined
      mine?.resolve(message)
      return mine !== undefined
    },
    fail(error: UpstreamError): void {
      for (const { reject } of open.values()) reject(error)
    },
  }
}

type Listeners = {
  /** Receives an object, or a list that starts with one. */
  readonly onMessage: (message: unknown) => void
  /** Called once, even if the connection never opened. */
  readonly onEnd: (error: UpstreamError) => void
}

/** @throws {UpstreamError} */
function connect(url: URL, maxBytes: number, { onMessage, onEnd }: Listeners): Promise<WebSocket> {
  const { target, headers } = addressed(url)
  const opened = Promise.withResolvers<WebSocket>()
  const socket = new WebSocket(target, {
    headers: 'authorization' in headers ? { authorization: headers['authorization'] } : {},
    maxPayload: maxBytes,
    handshakeTimeout: HANDSHAKE_MS,
  })
  const heartbeat = watchHeartbeat(socket)
  let failure: string | undefined
  let kind: UpstreamError['kind'] = 'unreachable'
  socket.on('open', () => {
    kind = 'broken'
    opened.resolve(socket)
  })
  socket.on('message', (data) => {
    heartbeat.seen()
    const message = readMessage(data)
    if (message !== undefined) onMessage(message)
  })
  socket.on('error', (error: Error & { readonly code?: string }) => {
    failure ??= `cannot be reached: ${reasonOf(error)}`
    if (error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') kind = 'large'
  })
  socket.on('unexpected-response', (_, response) => {
    failure = `answered with ${reasonOfResponse(response.statusCode ?? 0, '')}`
    // The error that follows has no further information.
    socket.terminate()
  })
  socket.on('close', () => {
    heartbeat.stop()
    const error = new UpstreamError(
      kind,
      `${url.protocol}//${url.host}: ${failure ?? 'the connection ended'}`,
    )
    opened.reject(error)
    onEnd(error)
  })
  return opened.promise
}

/** Returns undefined if the message is no response; its requester times out. */
function readMessage(data: RawData): unknown {
  try {
    const message: unknown = JSON.parse(String(data))
    const first: unknown = Array.isArray(message) ? message[0] : message
    return typeof first === 'object' && first !== null ? message : undefined
  } catch {
    return undefined
  }
}

/** Detects a dead connection that neither side has closed. */
function watchHeartbeat(socket: WebSocket) {
  let isSeen = true
  socket.on('pong', () => {
    isSeen = true
  })
  const timer = setInterval(() => {
    if (!isSeen) socket.terminate()
    isSeen = false
    if (socket.readyState === WebSocket.OPEN) socket.ping()
  }, PING_MS).unref()
  return {
    seen() {
      isSeen = true
    },
    stop: () => clearInterval(timer),
  }
}
