/**
 * Reading state of a WebSocket: paused while any reason to stop exists. The file also has the
 * pings.
 */

/**
 * Reasons to stop reading. `messages`: too many unanswered or waiting; `unread`: responses are not
 * read; `refusals`: too many refusals; `charge`: bytes are not paid; `room`: too many bytes are
 * being received; `slow`: the connection is about to be closed.
 */
export type Stop = 'messages' | 'unread' | 'refusals' | 'charge' | 'room' | 'slow'

export interface Reading {
  stop(why: Stop): void
  go(why: Stop): void
  readonly isStopped: boolean
  /** Returns the total milliseconds for which the connection was not read. */
  stoppedMs(): number
}

export function createReading(
  socket: { pause(): void; resume(): void },
  now: () => number,
): Reading {
  const reasons = new Set<Stop>()
  let since = 0
  let sum = 0
  return {
    stop(why) {
      if (reasons.size === 0) {
        since = now()
        socket.pause()
      }
      reasons.add(why)
    },
    go(why) {
      if (!reasons.delete(why) || reasons.size > 0) return
      sum += now() - since
      socket.resume()
    },
    get isStopped() {
      return reasons.size > 0
    },
    stoppedMs: () => (reasons.size > 0 ? sum + now() - since : sum),
  }
}

export type Times = { readonly pingMs: number; readonly pongMs: number }

/** Functions of a WebSocket that the pings use. */
type Pinged = {
  readonly OPEN: number
  readonly readyState: number
  ping(): void
  terminate(): void
  on(event: 'pong', listener: () => void): unknown
}

/**
 * Pings a peer, and ends the connection without a close handshake if no pong arrives. The timeout
 * restarts if reading was stopped, because a pong cannot be seen then.
 */
export function keepAlive(
  webSocket: Pinged,
  { pingMs, pongMs }: Times,
  reading: Pick<Reading, 'stoppedMs'>,
): () => void {
  let timer = setTimeout(ping, pingMs).unref()
  function ping() {
    webSocket.ping()
    waitForPong()
  }
  function waitForPong() {
    const stoppedBeforeMs = reading.stoppedMs()
    timer = setTimeout(() => {
      if (reading.stoppedMs() > stoppedBeforeMs) waitForPong()
      else webSocket.terminate()
    }, pongMs).unref()
  }
  webSocket.on('pong', () => {
    clearTimeout(timer)
    if (webSocket.readyState === webSocket.OPEN) timer = setTimeout(ping, pingMs).unref()
  })
  return () => clearTimeout(timer)
}
