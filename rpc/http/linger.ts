/** What is still being sent of a request that is refused already: read and thrown away, so that its answer arrives. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Charge } from '../limiter/limiter.ts'
import { POINT_BYTES, POINT_PIECES } from '../limiter/points.ts'
import { stopReading } from '../sockets/closing.ts'
import { dropBody, stopParsing, type TakePiece, takeBody } from './incoming.ts'

export type Linger = {
  /** That are read at most; 0: the connection is closed under them. */
  readonly bytes: number
  /** Takes points for what has come beyond the first 64 kB, or pieces; undefined: it is free. */
  readonly charge: ((points: number) => Charge | Promise<Charge>) | undefined
}

/** 'unread': nothing more is read of it, and its connection is closed when the answer has had time to be read. */
export type Rest = Linger | 'unread'

/** How long, and for how many bytes and pieces, a client may go on sending. */
const LINGER_MS = 2_000
export const LINGER_BYTES = 4_000_000
const LINGER_PIECES = 1_024

/**
 * Ends a response whose request is still being sent: whoever sends is not reading, and a connection closed under it would take the answer
 * along. So the answer goes out whole, the rest of the request is read and thrown away, and only then the connection is closed.
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
  // Nothing more is read of whom that does not impress, nor of who cannot pay for it.
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

/** Until the connection of a request that is not read any more is closed. */
const UNREAD_MS = 1_000

/**
 * Answers a request whose rest is not read, and closes its connection a second later: by then the answer has been read, which a reset would
 * take along. What is not read stays where it is: the system takes some 100 kB of a connection, whatever its client would like to send.
 * @param closeSoon runs what it is given in a later turn of the loop, for many of them may be due at once
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

/** Charges for what has become due, one charge after the other. */
function createPayer(
  charge: NonNullable<Linger['charge']>,
  due: () => number,
  onRefused: () => void,
): () => void {
  let paid = 0
  let isPaying = false
  function judge({ isAllowed }: Charge, points: number): void {
    if (isAllowed) paid += points
    else onRefused()
  }
  return function pay() {
    const points = due() - paid
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
 * Ends a response and closes its connection under what is still being sent: once the response has ended, Node reads the rest of a request
 * whoever paused it, 2 MB in one turn of the event loop. A client on Linux still finds the answer in front of the reset.
 */
export function endAtOnce(request: IncomingMessage, response: ServerResponse, text?: string): void {
  stopParsing(request.socket)
  response.end(text, () => request.socket.destroy())
}
