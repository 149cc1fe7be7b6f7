/** Limits on bursts of one connection: pipelined requests and pieces of their bodies. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createFifo, type Fifo } from '../core/fifo.ts'
import type { Limits } from '../core/limits.ts'
import { PIECE_BYTES } from './body.ts'
import { Incoming } from './incoming.ts'

/**
 * 'later': after other requests of the same turn of the event loop; 'ended': the connection was
 * closed for a flood.
 */
export type Order = 'now' | 'later' | 'ended'
export type FloodLimits = Pick<
  Limits,
  'requestsPerSocket' | 'requestsInFlight' | 'requestsPerTurn' | 'bodyPieces'
>

/** A request whose response is not fully written to the socket. */
type OpenResponse = { readonly writableFinished: boolean }
/** A request of the fast path, with its client's address. */
type Plain = OpenResponse & { readonly address: string }

type Sent = {
  readonly socket: Socket
  requests: number
  openRequests: number
  newest: OpenResponse | undefined
  /** Turn of the event loop that the counts below belong to. */
  turn: number
  requestsInTurn: number
  piecesInTurn: number
  bytesInTurn: number
  headersInTurn: number
}

/**
 * Headers per request that honest clients need at most. A hundred requests with hundreds of headers
 * each block the front for too long.
 */
const HEADERS = 64
/** Headers of one turn that are never a flood. Node reads at most 2,000 headers of a request. */
const MIN_HEADERS = 2_000

/** Property of a socket with its counts. */
const SENT = Symbol('sent')
type Known = Socket & { [SENT]?: Sent }

export interface Floods {
  /** Orders a request that Node has read. 'ended': the connection was closed by `end`. */
  orderOf(request: IncomingMessage, response: ServerResponse): Order
  /**
   * Counts a request of the fast path. The caller calls it while `hasTurn` is true, or in a
   * separate turn.
   * @param headers number of its headers
   * @returns false if the connection was closed for a flood
   */
  admit(socket: Socket, plain: Plain, headers: number): boolean
  /** Tells whether a request of this connection may run now, before others of the same turn. */
  hasTurn(socket: Socket): boolean
  /** Tells whether the next request is the last one that the connection may send. */
  isNextLast(socket: Socket): boolean
}

/**
 * Checks each request once its headers are read. `end` closes a connection with too many unanswered
 * requests, headers, or pieces of bodies. A turn may have twice the pieces of a body of the same
 * size. The last allowed request closes the connection with its response, because Node's own limit
 * would refuse further requests instead.
 */
export function watchFloods(
  limits: FloodLimits,
  end: (socket: Socket, by: IncomingMessage | Plain) => void,
): Floods {
  const perTurn = Math.max(1, limits.requestsPerTurn)
  const piecesPerTurn = 2 * limits.bodyPieces
  const headersPerTurn = Math.max(MIN_HEADERS, HEADERS * limits.requestsInFlight)
  const check = createFloodCheck()

  /** Counts a request. False: a limit is exceeded. */
  function count(sent: Sent, newest: OpenResponse, headers: number): boolean {
    sent.requests++
    // Responses are sent in order, so all are finished when the newest is.
    sent.openRequests = (sent.newest?.writableFinished ?? true) ? 1 : sent.openRequests + 1
    sent.newest = newest
    check(sent)
    sent.headersInTurn += headers
    sent.requestsInTurn++
    return sent.openRequests <= limits.requestsInFlight && sent.headersInTurn <= headersPerTurn
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
          check(sent)
          sent.bytesInTurn += bytes
          // A fast sender may send megabytes in one turn, so each kilobyte allows another piece.
          if (++sent.piecesInTurn <= piecesPerTurn + sent.bytesInTurn / PIECE_BYTES) return true
          end(request.socket, request)
          return false
        }
      const isEarly = sent.requestsInTurn <= perTurn && sent.openRequests <= perTurn
      return isEarly ? 'now' : 'later'
    },
    admit(socket, plain, headers) {
      if (count(entryOf(socket), plain, headers)) return true
      end(socket, plain)
      return false
    },
    hasTurn(socket) {
      const sent = entryOf(socket)
      check(sent)
      const hasResponse = sent.newest?.writableFinished ?? true
      return sent.requestsInTurn < perTurn && (hasResponse || sent.openRequests < perTurn)
    },
    isNextLast: (socket) => entryOf(socket).requests + 1 >= limits.requestsPerSocket,
  }
}

/** Resets the counts of a connection at its first use in a turn of the event loop. */
function createFloodCheck(): (sent: Sent) => void {
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
    socket,
    newest: undefined,
    requests: 0,
    openRequests: 0,
    turn: -1,
    requestsInTurn: 0,
    piecesInTurn: 0,
    bytesInTurn: 0,
    headersInTurn: 0,
  }
  socket[SENT] = made
  return made
}

/**
 * Runs actions, at most `perTurn` in a turn of the event loop. Addresses take turns, and the
 * actions of one address run in order. The callers bound the number of waiting actions.
 */
export function createTurns(perTurn: number): (key: string, action: () => void) => void {
  /** Waiting actions by address; the next turn is first. */
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
