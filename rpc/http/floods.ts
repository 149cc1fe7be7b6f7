/** What one connection may send at once: requests in a row, and pieces of their bodies. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createFifo, type Fifo } from '../seam/fifo.ts'
import type { Limits } from '../seam/limits.ts'
import { PIECE_BYTES } from './body.ts'
import { Incoming } from './incoming.ts'

/** 'later': after others that came in the same turn of the event loop; 'ended': it was one too many. */
export type Order = 'now' | 'later' | 'ended'
export type FloodLimits = Pick<
  Limits,
  'requestsPerSocket' | 'requestsInFlight' | 'requestsPerTurn' | 'bodyPieces'
>

/** A request, until the socket has all of its answer. */
type Answering = { readonly writableFinished: boolean }
/** One that was read before Node, and whose it is. */
type Plain = Answering & { readonly address: string }

type Sent = {
  readonly socket: Socket
  requests: number
  unanswered: number
  newest: Answering | undefined
  /** The turn of the event loop that those below are of. */
  turn: number
  requestsInTurn: number
  piecesInTurn: number
  bytesInTurn: number
  headersInTurn: number
}

/** As many as requests have that mean it: a hundred of them with hundreds each take longer to parse than one client may hold the front. */
const HEADERS = 64
/** Of one request Node reads 2,000 at most, and they are no flood. */
const LEAST_HEADERS = 2_000

/** Where a socket has it. */
const SENT = Symbol('sent')
type Known = Socket & { [SENT]?: Sent }

export interface Floods {
  /** Of a request that Node has read; 'ended': by `end`. */
  orderOf(request: IncomingMessage, response: ServerResponse): Order
  /** Of one that was read before Node, with so many headers; false: it was one too many. Asked while `hasTurn`, or in a turn of its own. */
  admit(socket: Socket, plain: Plain, headers: number): boolean
  /** Whether a request of this connection may be taken at once, before others that came in the same turn of the event loop. */
  hasTurn(socket: Socket): boolean
  /** Whether the next request is the last one that its connection may have. */
  isNextLast(socket: Socket): boolean
}

/**
 * Looks at each request when its headers are here. A flood ends the connection by `end`: more unanswered requests than may be, or more
 * pieces in one turn of the event loop than two bodies of the same bytes may have, or headers than all the requests may have that it may
 * wait for.
 * The last request that a connection may have closes it: Node's own count keeps it open and refuses what follows.
 */
export function watchFloods(
  limits: FloodLimits,
  end: (socket: Socket, by: IncomingMessage | Plain) => void,
): Floods {
  const perTurn = Math.max(1, limits.requestsPerTurn)
  const piecesPerTurn = 2 * limits.bodyPieces
  const headersPerTurn = Math.max(LEAST_HEADERS, HEADERS * limits.requestsInFlight)
  const look = createLook()

  /** False: it is one too many. */
  function count(sent: Sent, newest: Answering, headers: number): boolean {
    sent.requests++
    // Answers go out in order: with the newest, all are out.
    sent.unanswered = (sent.newest?.writableFinished ?? true) ? 1 : sent.unanswered + 1
    sent.newest = newest
    look(sent)
    sent.headersInTurn += headers
    sent.requestsInTurn++
    return sent.unanswered <= limits.requestsInFlight && sent.headersInTurn <= headersPerTurn
  }

  return {
    orderOf(request, response) {
      const sent = entryOf(request.socket)
      const isFew = count(sent, response, request.rawHeaders.length / 2)
      if (sent.requests >= limits.requestsPerSocket) response.shouldKeepAlive = false
      if (!isFew) {
        end(request.socket, request)
        return 'ended'
      }
      if (request instanceof Incoming && request.headers['transfer-encoding'] !== undefined)
        request.countPiece = (bytes) => {
          if (sent.socket.destroyed) return false
          look(sent)
          sent.bytesInTurn += bytes
          // One turn may read megabytes of who sends fast.
          if (++sent.piecesInTurn <= piecesPerTurn + sent.bytesInTurn / PIECE_BYTES) return true
          end(request.socket, request)
          return false
        }
      const isEarly = sent.requestsInTurn <= perTurn && sent.unanswered <= perTurn
      return isEarly ? 'now' : 'later'
    },
    admit(socket, plain, headers) {
      if (count(entryOf(socket), plain, headers)) return true
      end(socket, plain)
      return false
    },
    hasTurn(socket) {
      const sent = entryOf(socket)
      look(sent)
      const isAnswered = sent.newest?.writableFinished ?? true
      return sent.requestsInTurn < perTurn && (isAnswered || sent.unanswered < perTurn)
    },
    isNextLast: (socket) => entryOf(socket).requests + 1 >= limits.requestsPerSocket,
  }
}

/** Begins the counts anew of whom it is shown for the first time in this turn of the event loop. */
function createLook(): (sent: Sent) => void {
  let turn = 0
  let isCounted = false
  const next = () => {
    turn++
    isCounted = false
  }
  return (sent) => {
    if (!isCounted) {
      isCounted = true
      setImmediate(next)
    }
    if (sent.turn === turn) return
    sent.turn = turn
    sent.requestsInTurn = 0
    sent.piecesInTurn = 0
    sent.bytesInTurn = 0
    sent.headersInTurn = 0
  }
}

function entryOf(socket: Known): Sent {
  if (socket[SENT] !== undefined) return socket[SENT]
  const made: Sent = {
    ...{ socket, newest: undefined, requests: 0, unanswered: 0 },
    ...{ turn: -1, requestsInTurn: 0, piecesInTurn: 0, bytesInTurn: 0, headersInTurn: 0 },
  }
  socket[SENT] = made
  return made
}

/**
 * Runs what it is given, so many in a turn of the event loop: each address in its turn, and what is of one in order. Bounded by what its
 * callers may have waiting.
 */
export function createTurns(perTurn: number): (key: string, action: () => void) => void {
  /** Those with something waiting, whose turn is next first. */
  const waiting = new Map<string, Fifo<() => void>>()
  let isScheduled = false
  function turn(): void {
    for (let run = 0; run < perTurn; run++) {
      const [next] = waiting
      if (next === undefined) break
      const [key, actions] = next
      const action = actions.shift()!
      waiting.delete(key)
      if (actions.length > 0) waiting.set(key, actions)
      action()
    }
    isScheduled = waiting.size > 0
    if (isScheduled) setImmediate(turn)
  }
  return (key, action) => {
    const actions = waiting.get(key)
    if (actions !== undefined) {
      actions.push(action)
      return
    }
    const made = createFifo<() => void>()
    made.push(action)
    waiting.set(key, made)
    if (isScheduled) return
    isScheduled = true
    setImmediate(turn)
  }
}
