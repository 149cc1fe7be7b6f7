/** JSON-RPC over one WebSocket, opened with the first message and again with the next one after it has ended. */
import { type RawData, WebSocket } from 'ws'
import { UpstreamError } from '../../engine/sources/upstream/error.ts'
import type { Transport } from '../../engine/sources/upstream/transport.ts'
import { reasonOf, reasonOfAnswer } from '../../rpc/legacy/failures.ts'
import { addressed } from '../../rpc/legacy/posting.ts'

/** For the connection. */
const HANDSHAKE_MS = 5_000
/** A connection that has brought nothing for so long is asked whether it lives, and ended when it is silent as long again. */
const PING_MS = 15_000

/** @param url valid; a user and a password in it go into a header */
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
        if (!waiting.answer(message)) onPush(message)
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
      const answer = waiting.add(ids, signal)
      connected.send(message)
      return answer
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

/** Messages whose answers have not come. */
function createWaiting() {
  /** By each of its ids. */
  const open = new Map<
    number,
    { readonly resolve: (answer: unknown) => void; readonly reject: (reason: unknown) => void }
  >()
  return {
    async add(ids: readonly number[], signal: AbortSignal): Promise<unknown> {
      const answer = Promise.withResolvers<unknown>()
      for (const id of ids) open.set(id, answer)
      const onAbort = () => answer.reject(signal.reason)
      signal.addEventListener('abort', onAbort)
      try {
        return await answer.promise
      } finally {
        signal.removeEventListener('abort', onAbort)
        for (const id of ids) open.delete(id)
      }
    },
    /** False: nobody waits for it. */
    answer(message: unknown): boolean {
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
  /** An object, or a list that begins with one. */
  readonly onMessage: (message: unknown) => void
  /** Once, also where it never opened. */
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
  const life = watchLife(socket)
  let failure: string | undefined
  let kind: UpstreamError['kind'] = 'unreachable'
  socket.on('open', () => {
    kind = 'broken'
    opened.resolve(socket)
  })
  socket.on('message', (data) => {
    life.seen()
    const message = readMessage(data)
    if (message !== undefined) onMessage(message)
  })
  socket.on('error', (error: Error & { readonly code?: string }) => {
    failure ??= `cannot be reached: ${reasonOf(error)}`
    if (error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') kind = 'large'
  })
  socket.on('unexpected-response', (_, response) => {
    failure = `answered with ${reasonOfAnswer(response.statusCode ?? 0, '')}`
    // The error that follows says no more.
    socket.terminate()
  })
  socket.on('close', () => {
    life.stop()
    const error = new UpstreamError(
      kind,
      `${url.protocol}//${url.host}: ${failure ?? 'the connection ended'}`,
    )
    opened.reject(error)
    onEnd(error)
  })
  return opened.promise
}

/** undefined: nobody's answer; whoever waits for one is told when its time is over. */
function readMessage(data: RawData): unknown {
  try {
    const message: unknown = JSON.parse(String(data))
    const first: unknown = Array.isArray(message) ? message[0] : message
    return typeof first === 'object' && first !== null ? message : undefined
  } catch {
    return undefined
  }
}

/** A connection may be dead without either side having said so. */
function watchLife(socket: WebSocket) {
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
