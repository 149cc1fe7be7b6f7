/**
 * The page's two WebSockets, for events of the node and for JSON-RPC. Both reconnect automatically.
 */
import type { LiveMessage } from './messages.ts'

export type Link = 'connecting' | 'open' | 'lost' | 'full'

const FIRST_RETRY_MS = 250
const MAX_RETRY_MS = 3_000
/** A page that is hidden for this long gets no messages. */
const HIDDEN_MS = 30_000
const CALL_MS = 15_000
/** Maximum number of waiting requests. */
const MAX_WAITING = 64
/** WebSocket close code "try again later", for a viewer beyond the limit. */
const TRY_LATER = 1_013

const socketUrl = (path: string): string =>
  new URL(path, location.href.replace(/^http/, 'ws')).toString()

export function openLive(on: {
  messages(messages: readonly LiveMessage[]): void
  link(link: Link): void
}): void {
  let socket: WebSocket | undefined
  let retryMs = FIRST_RETRY_MS
  let timer: ReturnType<typeof setTimeout> | undefined
  let hiding: ReturnType<typeof setTimeout> | undefined

  function connect(): void {
    clearTimeout(timer)
    const opened = new WebSocket(socketUrl('page/live'))
    socket = opened
    opened.onmessage = ({ data }) => {
      retryMs = FIRST_RETRY_MS
      on.link('open')
      on.messages(JSON.parse(String(data)) as readonly LiveMessage[])
    }
    opened.onclose = ({ code }) => {
      if (socket !== opened) return
      socket = undefined
      on.link(code === TRY_LATER ? 'full' : 'lost')
      timer = setTimeout(connect, code === TRY_LATER ? 10 * MAX_RETRY_MS : retryMs)
      retryMs = Math.min(2 * retryMs, MAX_RETRY_MS)
    }
  }
  function leave(): void {
    const left = socket
    socket = undefined
    clearTimeout(timer)
    left?.close()
    on.link('lost')
  }

  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding)
    if (document.hidden) hiding = setTimeout(leave, HIDDEN_MS)
    else if (socket === undefined) {
      on.link('connecting')
      connect()
    }
  })
  on.link('connecting')
  connect()
}

export class CallError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Sends a JSON-RPC request.
 * @throws {CallError} the node's error, or a timeout
 */
export type Call = <T>(method: string, params?: readonly unknown[]) => Promise<T>

type Waiting = {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: CallError) => void
  readonly timer: ReturnType<typeof setTimeout>
}
const SILENT = 0

/** Opens JSON-RPC on the flashblocks endpoint; it connects on the first request. */
export function openCalls(): Call {
  const waiting = new Map<number, Waiting>()
  let opening: Promise<WebSocket> | undefined
  let next = 1

  function connect(): Promise<WebSocket> {
    const socket = new WebSocket(socketUrl('flashblocks'))
    socket.onmessage = ({ data }) => onResponse(JSON.parse(String(data)))
    return new Promise((resolve, reject) => {
      socket.onopen = () => resolve(socket)
      socket.onclose = () => {
        opening = undefined
        const lost = new CallError(SILENT, 'the node cannot be reached')
        reject(lost)
        for (const id of [...waiting.keys()]) settle(id)?.reject(lost)
      }
    })
  }
  function settle(id: number): Waiting | undefined {
    const one = waiting.get(id)
    if (one !== undefined) clearTimeout(one.timer)
    waiting.delete(id)
    return one
  }
  function onResponse(response: {
    readonly id: number
    readonly result?: unknown
    readonly error?: { readonly code: number; readonly message: string }
  }): void {
    const one = settle(response.id)
    if (response.error === undefined) one?.resolve(response.result)
    else one?.reject(new CallError(response.error.code, response.error.message))
  }

  return async <T>(method: string, params: readonly unknown[] = []): Promise<T> => {
    if (waiting.size >= MAX_WAITING)
      throw new CallError(SILENT, 'too many requests of this page wait')
    opening ??= connect()
    const socket = await opening
    const id = next++
    return new Promise<T>((resolve, reject) => {
      const timer = setTimeout(
        () =>
          settle(id)?.reject(
            new CallError(SILENT, `no response to ${method} within ${CALL_MS / 1_000} s`),
          ),
        CALL_MS,
      )
      waiting.set(id, { resolve: (value) => resolve(value as T), reject, timer })
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    })
  }
}
