/** JSON-RPC over one WebSocket: each message is a request body, answered when it is ready. */
import type { Endpoint } from '../engine/chain/types.ts'
import type { Answer, Answerer } from './exchange.ts'
import type { Limits } from './limits.ts'
import type { Client } from './method.ts'
import type { ServerState } from './server.ts'
import type { Connection, ConnectionHandlers } from './websocket.ts'

export type MessageOptions = {
  readonly answer: Answerer
  readonly onBug: (error: unknown) => void
  readonly limits: Limits
  readonly endpoint: Endpoint
  readonly state: ServerState
}

/** Reading stops while too many messages wait for their answers. */
export function serveMessages(
  connection: Connection,
  { answer, onBug, limits, endpoint, state }: MessageOptions,
): ConnectionHandlers {
  const client: Client = {
    address: connection.address,
    endpoint,
    notify: (text) => void connection.send(text),
    signal: connection.signal,
    get isGone() {
      return connection.signal.aborted
    },
  }
  let inFlight = 0
  function send(answer: Answer): void {
    try {
      if (answer.parts !== undefined) {
        connection.sendParts(answer.parts, over)
        return
      }
      if (answer.text !== undefined) connection.send(answer.text)
    } catch (error) {
      onBug(error)
      connection.close(1011, 'internal error')
    }
    over()
  }
  function over(): void {
    if (inFlight-- === limits.messagesInFlight) connection.resume()
    state.ended()
  }
  return {
    onMessage(data) {
      // The connection is about to be closed with 1001, which says all.
      if (state.paused !== undefined) return
      state.begun()
      if (++inFlight === limits.messagesInFlight) connection.pause()
      const answered = answer(data.toString('utf8'), client)
      if (answered instanceof Promise) void answered.then(send)
      else send(answered)
    },
  }
}
