/** Linger: the rest of a refused request is read and discarded, so that its response arrives. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Charge } from '../limiter/limiter.ts'
import { POINT_BYTES, POINT_PIECES } from '../limiter/points.ts'
import { stopReading } from '../sockets/closing.ts'
import { dropBody, stopParsing, type TakePiece, takeBody } from './incoming.ts'

export type Linger = {
  /** Maximum bytes to read; 0 closes the connection during the request. */
  readonly bytes: number
  /** Charges for bytes beyond the first 64 kB, or for pieces. undefined: no charge. */
  readonly charge: ((points: number) => Charge | Promise<Charge>) | undefined
}

/**
 * 'unread': nothing more is read, and the connection is closed after the response has had time to
 * arrive.
 */
export type LingerMode = Linger | 'unread'

/** Limits on the milliseconds, bytes and pieces that a refused client may still send. */
const LINGER_MS = 2_000
export const LINGER_BYTES = 4_000_000
const LINGER_PIECES = 1_024

/**
 * Ends a response while its request is still being sent. A client does not read while it sends, and
 * an early close would lose the response. The response is therefore written, the rest of the
 * request is discarded, and then the connection is closed.
 */
export function endBeforeRequest(
  request: IncomingMessage,
  response: ServerResponse,
  { bytes, charge }: Linger,
): void {
  let size = 0
  let pieces = 0
  const end = () => {
    clearTimeout(timer)
    response.end()
  }
  // A client that exceeds the limits or cannot pay is closed at once.
  const stop = () => {
    clearTimeout(timer)
    dropBody(request, count)
    endAtOnce(request, response)
  }
  const due = () => Math.max(Math.ceil(size / POINT_BYTES), Math.ceil(pieces / POINT_PIECES)) - 1
  const pay = charge === undefined ? () => {} : createPayer(charge, due, stop)
  const count: TakePiece = (piece) => {
    if (piece === null) {
      end()
      return
    }
    size += piece.length
    pieces++
    if (size > bytes || pieces > LINGER_PIECES) stop()
    else pay()
  }
  const timer = setTimeout(end, LINGER_MS)
  request.once('close', end)
  if (request.complete) end()
  else takeBody(request, count)
}

/** Milliseconds after which the connection of an unread request is closed. */
const UNREAD_MS = 1_000

/**
 * Creates the end of a request whose rest is not read. The connection is closed a second later,
 * because an earlier reset would lose the response. The system buffers about 100 kB of unread bytes
 * per connection.
 * @param closeSoon runs an action in a later turn of the event loop, because many may be due at
 *   once
 */
export function createUnreadEnding(
  closeSoon: (close: () => void) => void,
): (request: IncomingMessage, response: ServerResponse, text: string) => void {
  return ({ socket }, response, text) => {
    stopParsing(socket)
    stopReading(socket)
    response.write(text)
    const timer = setTimeout(() => closeSoon(() => socket.destroy()), UNREAD_MS)
    response.once('close', () => clearTimeout(timer))
  }
}

/** Creates a payer of due points, with one charge at a time. */
function createPayer(
  charge: NonNullable<Linger['charge']>,
  due: () => number,
  onRefused: () => void,
): () => void {
  let prepaid = 0
  let isPaying = false
  function judge({ isAllowed }: Charge, points: number): void {
    if (isAllowed) prepaid += points
    else onRefused()
  }
  return function pay() {
    const points = due() - prepaid
    if (points <= 0 || isPaying) return
    const charged = charge(points)
    if (!(charged instanceof Promise)) {
      judge(charged, points)
      return
    }
    isPaying = true
    void charged.then((one) => {
      isPaying = false
      judge(one, points)
      if (one.isAllowed) pay()
    })
  }
}

/**
 * Ends a response and closes the connection during the request. After the response Node would read
 * the rest even of a paused request, 2 MB in one turn. A client on Linux still receives the
 * response before the reset.
 */
export function endAtOnce(request: IncomingMessage, response: ServerResponse, text?: string): void {
  stopParsing(request.socket)
  response.end(text, () => request.socket.destroy())
}
