/** Closes many sockets over several turns of the event loop. */
import type { Socket } from 'node:net'
import { createFifo } from '../core/fifo.ts'
import { stopHandle } from '../wire/internals.ts'

/** Sockets closed in one turn. 64 late sockets with a response each take about 3 ms. */
const CLOSED_PER_TURN = 64

/**
 * Creates a function that runs actions in later turns of the event loop, in order. The sockets to
 * close bound the queue.
 */
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

/**
 * Stops the reading of a socket at once. An earlier `resume` takes effect in the next tick, even
 * after a later `pause`. Reading is therefore stopped again in that tick.
 * @param isStopped called in that tick; false if the socket may be read again
 */
export function stopReading(socket: Socket, isStopped = () => true): void {
  socket.pause()
  stopHandle(socket)
  process.nextTick(() => {
    if (isStopped()) stopHandle(socket)
  })
}

const REASONS = {
  400: 'Bad Request',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
} as const

/** Answers a broken or late request and closes its connection. */
export function endBroken(socket: Socket, status: keyof typeof REASONS, error: Error): void {
  const reason = REASONS[status]
  if (socket.writable)
    socket.write(
      `HTTP/1.1 ${status} ${reason}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${reason.length}\r\n\r\n${reason}`,
    )
  socket.destroy(error)
}
