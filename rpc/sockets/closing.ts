/** Closes sockets, however many at once, some of them in each turn of the event loop. */
import type { Socket } from 'node:net'
import { createFifo } from '../seam/fifo.ts'

/** 64 late sockets, each of which is answered before it is closed, take some 3 ms. */
const CLOSED_PER_TURN = 64

/** Runs what it is given in later turns of the event loop, in order. Bounded by the sockets that are closed by it. */
export function createClosing(perTurn = CLOSED_PER_TURN): (close: () => void) => void {
  const waiting = createFifo<() => void>()
  let isScheduled = false
  function closeSome(): void {
    for (let closed = 0; closed < perTurn; closed++) {
      const close = waiting.shift()
      if (close === undefined) break
      close()
    }
    isScheduled = waiting.length > 0
    if (isScheduled) setImmediate(closeSome)
  }
  return (close) => {
    waiting.push(close)
    if (isScheduled) return
    isScheduled = true
    setImmediate(closeSome)
  }
}

type Handle = { reading: boolean; readStop?(): number }
/**
 * A socket reads from the moment that Node makes it, up to 64 kB whether or not anybody listens, and `pause` stops it only after that. A
 * `resume` of before comes about in a later tick whether or not it was paused since, so that it is stopped then once more.
 * @param isStopped asked in that tick: it is to stay so
 */
export function stopReading(socket: Socket, isStopped = () => true): void {
  socket.pause()
  stopHandle(socket)
  process.nextTick(() => {
    if (isStopped()) stopHandle(socket)
  })
}
function stopHandle(socket: Socket): void {
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null }
  if (handle == null) return
  // As Node notes it, which starts it again by `resume` where this is false.
  handle.reading = false
  handle.readStop?.()
}

const REASONS = {
  400: 'Bad Request',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
} as const

/** Answers what is no request, or is late, and closes its connection. */
export function endBroken(socket: Socket, status: keyof typeof REASONS, error: Error): void {
  const reason = REASONS[status]
  if (socket.writable)
    socket.write(
      `HTTP/1.1 ${status} ${reason}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${reason.length}\r\n\r\n${reason}`,
    )
  socket.destroy(error)
}
