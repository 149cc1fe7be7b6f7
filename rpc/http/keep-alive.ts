/** Pings, and what becomes of a peer that does not answer them. */
import type { Reading } from './reading.ts'

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
