/** Clients that were refused too often in a second: what they send is not read, and they are answered when the second is over. */

import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { errorText } from '../json/envelope.ts'
import { headersOfRefusal } from '../limiter/headers.ts'
import { type Refusal, rateLimited } from '../seam/errors.ts'
import { createClosing } from '../sockets/closing.ts'
import { isLong } from './body.ts'
import { stopParsing, takeBody } from './incoming.ts'

export interface Held {
  /** Answers with 429, later; a second request on the same connection meanwhile ends it. */
  hold(
    refusal: Refusal,
    exchange: {
      readonly request: IncomingMessage
      readonly response: ServerResponse
      readonly headers: OutgoingHttpHeaders
    },
  ): void
}

/**
 * Bounded by the sockets that are open: each waits with one request.
 * @param strike whoever sends more on a connection whose answer waits; the second time it is not to be heard for a while
 */
export function createHeld(strike: (socket: Socket) => void): Held {
  const waiting = new WeakSet<Socket>()
  // Those of an address wait for the same moment.
  const answerSoon = createClosing()
  return {
    hold(refusal, { request, response, headers }) {
      const { socket } = request
      if (socket.destroyed) return
      if (waiting.has(socket) || isLong(request)) {
        strike(socket)
        stopParsing(socket)
        socket.destroy()
        return
      }
      waiting.add(socket)
      const text = errorText('null', rateLimited(refusal).toObject())
      const answer = () => {
        if (response.destroyed) return
        response.writeHead(429, {
          ...headers,
          ...headersOfRefusal(refusal),
          'content-type': 'application/json',
          'content-length': text.length,
        })
        response.end(text, 'latin1')
      }
      const timer = setTimeout(() => answerSoon(answer), refusal.retryAfterMs)
      response.once('close', () => {
        clearTimeout(timer)
        waiting.delete(socket)
      })
      // A body of a point or less is thrown away.
      takeBody(request, () => {})
    },
  }
}
