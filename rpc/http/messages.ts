/** JSON-RPC over one WebSocket: each message is a request body, answered when it is ready. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Client } from '../seam/client.ts'
import type { Answer, Answerer } from '../seam/exchange.ts'
import type { Limits } from '../seam/limits.ts'
import type { Paid } from '../seam/paid.ts'
import type { ServerState } from './state.ts'
import type { Connection, ConnectionHandlers } from './websocket.ts'

export type MessageLimits = Pick<Limits, 'messagesInFlight' | 'messagesWaiting'>
export type MessageOptions = {
  readonly answer: Answerer
  readonly onBug: (error: unknown) => void
  readonly limits: MessageLimits
  readonly endpoint: Endpoint
  readonly state: ServerState
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** Messages that waited, in one turn of the loop. */
const BEGUN_PER_TURN = 16

/**
 * Reading stops while too many messages wait for their answers, or answers for being read. What was read before that waits in its order;
 * more of it than a client can mean ends the connection.
 */
export function serveMessages(connection: Connection, options: MessageOptions): ConnectionHandlers {
  const { limits, state } = options
  const client = clientOf(connection, options.endpoint)
  const waiting: { readonly data: Buffer; readonly paid: Paid }[] = []
  let inFlight = 0
  const pause = createPause(connection, options.now, goOn)

  const mayBegin = () => inFlight < limits.messagesInFlight && !pause.isOn && !connection.isUnread

  function begin(data: Buffer, paid: Paid): void {
    state.begun()
    if (++inFlight === limits.messagesInFlight) connection.stopReading('messages')
    const answered = options.answer(data.toString('utf8'), client, paid)
    if (answered instanceof Promise) void answered.then(send)
    else send(answered)
  }
  function send(answer: Answer): void {
    if (answer.holdMs !== undefined && answer.holdMs > 0) pause.begin(answer.holdMs)
    try {
      if (answer.parts !== undefined) {
        connection.sendParts(answer.parts, over)
        return
      }
      if (answer.text !== undefined) connection.answer(answer.text)
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
  /** Something that spoke against the next message may have gone. */
  function goOn(): void {
    if (waiting.length > 0 && mayBegin()) schedule()
    else if (waiting.length === 0 && inFlight < limits.messagesInFlight)
      connection.readOn('messages')
  }
  const schedule = onceNextTurn(() => {
    for (let begun = 0; begun < BEGUN_PER_TURN && mayBegin(); begun++) {
      const next = waiting.shift()
      if (next === undefined) break
      begin(next.data, next.paid)
    }
    goOn()
  })

  return {
    onMessage(data, _isBinary, paid) {
      // The connection is about to be closed with 1001, which says all.
      if (state.paused !== undefined) return
      if (waiting.length === 0 && mayBegin()) begin(data, paid)
      else if (waiting.length === limits.messagesWaiting)
        connection.close(1008, 'too many messages at once')
      else {
        waiting.push({ data, paid })
        connection.stopReading('messages')
      }
    },
    onRoom: goOn,
    onClose() {
      waiting.length = 0
      pause.end()
    },
  }
}

/** However often it is asked for before. */
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

/** A connection that has had more refusals than it may is not read for a while. */
function createPause(connection: Connection, now: () => number, onOver: () => void) {
  let until = 0
  let timer: NodeJS.Timeout | undefined
  return {
    get isOn() {
      return timer !== undefined
    },
    begin(ms: number): void {
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
