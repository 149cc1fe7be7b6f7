/**
 * JSON-RPC over one WebSocket: each message is a request body, and responses are sent when ready.
 */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Client } from '../core/client.ts'
import type { Responder, RpcResponse } from '../core/exchange.ts'
import type { Limits } from '../core/limits.ts'
import type { Prepaid } from '../core/prepaid.ts'
import type { ServerState } from './server-state.ts'
import type { Connection, ConnectionHandlers } from './websocket.ts'

export type MessageLimits = Pick<Limits, 'messagesInFlight' | 'messagesWaiting'>
export type MessageOptions = {
  readonly respond: Responder
  readonly onBug: (error: unknown) => void
  readonly limits: MessageLimits
  readonly endpoint: Endpoint
  readonly state: ServerState
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** Waiting messages that are started in one turn of the event loop. */
const STARTED_PER_TURN = 16

/**
 * Answers the messages of a connection. Reading stops while too many messages are unanswered or
 * responses unread. Messages read before that wait in order. A connection with too many of them is
 * closed.
 */
export function serveMessages(connection: Connection, options: MessageOptions): ConnectionHandlers {
  const { limits, state } = options
  const client = clientOf(connection, options.endpoint)
  const waiting: { readonly data: Buffer; readonly prepaid: Prepaid }[] = []
  let inFlight = 0
  const pause = createPause(connection, options.now, goOn)

  const mayStart = () => inFlight < limits.messagesInFlight && !pause.isOn && !connection.isUnread

  function start(data: Buffer, prepaid: Prepaid): void {
    state.started()
    if (++inFlight === limits.messagesInFlight) connection.stopReading('messages')
    const response = options.respond(data.toString('utf8'), client, prepaid)
    if (response instanceof Promise) void response.then(send)
    else send(response)
  }
  function send(response: RpcResponse): void {
    if (response.throttleMs !== undefined && response.throttleMs > 0)
      pause.start(response.throttleMs)
    try {
      if (response.parts !== undefined) {
        connection.sendParts(response.parts, over)
        return
      }
      if (response.text !== undefined) connection.respond(response.text)
    } catch (error) {
      options.onBug(error)
      connection.close(1011, 'internal error')
    }
    over()
  }
  function over(): void {
    inFlight--
    state.ended()
    goOn()
  }
  /** Continues after a reason against the next message may have gone. */
  function goOn(): void {
    if (waiting.length > 0 && mayStart()) schedule()
    else if (waiting.length === 0 && inFlight < limits.messagesInFlight)
      connection.readOn('messages')
  }
  const schedule = onceNextTurn(() => {
    for (let started = 0; started < STARTED_PER_TURN && mayStart(); started++) {
      const next = waiting.shift()
      if (next === undefined) break
      start(next.data, next.prepaid)
    }
    goOn()
  })

  return {
    onMessage(data, _isBinary, prepaid) {
      // The connection is about to be closed with code 1001, so the message gets no response.
      if (state.paused !== undefined) return
      if (waiting.length === 0 && mayStart()) start(data, prepaid)
      else if (waiting.length === limits.messagesWaiting)
        connection.close(1008, 'too many messages at once')
      else {
        waiting.push({ data, prepaid })
        connection.stopReading('messages')
      }
    },
    onDrained: goOn,
    onClose() {
      waiting.length = 0
      pause.end()
    },
  }
}

/** Creates a function that runs the action once in the next turn, for all calls before. */
function onceNextTurn(action: () => void): () => void {
  let isScheduled = false
  return () => {
    if (isScheduled) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      action()
    })
  }
}

/** Creates a pause: a connection with too many refusals is not read for a while. */
function createPause(connection: Connection, now: () => number, onOver: () => void) {
  let until = 0
  let timer: NodeJS.Timeout | undefined
  return {
    get isOn() {
      return timer !== undefined
    },
    start(ms: number): void {
      const end = now() + ms
      if (end <= until || connection.signal.aborted) return
      until = end
      connection.stopReading('refusals')
      clearTimeout(timer)
      timer = setTimeout(() => {
        timer = undefined
        connection.readOn('refusals')
        onOver()
      }, ms)
    },
    end: () => clearTimeout(timer),
  }
}

function clientOf(connection: Connection, endpoint: Endpoint): Client {
  return {
    address: connection.address,
    endpoint,
    notify: connection.sendAll,
    signal: connection.signal,
    get isGone() {
      return connection.signal.aborted
    },
  }
}
