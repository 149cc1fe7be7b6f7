/** Whether a WebSocket is read: not as long as anything speaks against it; pings, and what becomes of a peer that does not answer them. */

/**
 * messages: as many as may be are in flight, or wait; unread: answers are not taken; refusals: more than a client may have; charge: bytes
 * that are not paid yet; room: too much is being received; slow: it is about to be closed.
 */
export type Stop = 'messages' | 'unread' | 'refusals' | 'charge' | 'room' | 'slow'

export interface Reading {
  stop(why: Stop): void
  go(why: Stop): void
  readonly isStopped: boolean
  /** Milliseconds for which it was not read, in all. */
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

/** Of a WebSocket. */
type Pinged = {
  readonly OPEN: number
  readonly readyState: number
  ping(): void
  terminate(): void
  on(event: 'pong', listener: () => void): unknown
}

/**
 * A peer that leaves a ping unanswered is ended without a handshake: it is not there. While it is not read its pong cannot be known: it
 * gets all the time again.
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
