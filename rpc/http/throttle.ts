/**
 * Delays clients that were refused too often in a second. Their input is not read, and the response
 * comes when the second is over.
 */

import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Refusal, rateLimited } from '../core/errors.ts'
import { errorText } from '../json/envelope.ts'
import { headersOfRefusal } from '../limiter/headers.ts'
import { createClosing } from '../sockets/closing.ts'
import { isLong } from './body.ts'
import { stopParsing, takeBody } from './incoming.ts'

export interface Throttle {
  /** Answers with 429 later. A second request on the connection meanwhile closes it. */
  delay(
    refusal: Refusal,
    exchange: {
      readonly request: IncomingMessage
      readonly response: ServerResponse
      readonly headers: OutgoingHttpHeaders
    },
  ): void
}

/**
 * Creates the throttle, bounded by the open sockets: each waits with one request.
 * @param strike called for a client that sends more while its response waits; the second time it is
 *   cut off for a while
 */
export function createThrottle(strike: (socket: Socket) => void): Throttle {
  const waiting = new WeakSet<Socket>()
  // Responses of an address are due at the same moment, so they are spread over turns.
  const respondSoon = createClosing()
  return {
    delay(refusal, { request, response, headers }) {
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
      const respond = () => {
        if (response.destroyed) return
        response.writeHead(429, {
          ...headers,
          ...headersOfRefusal(refusal),
          'content-type': 'application/json',
          'content-length': text.length,
        })
        response.end(text, 'latin1')
      }
      const timer = setTimeout(() => respondSoon(respond), refusal.retryAfterMs)
      response.once('close', () => {
        clearTimeout(timer)
        waiting.delete(socket)
      })
      // A body of at most one point is discarded.
      takeBody(request, () => {})
    },
  }
}
