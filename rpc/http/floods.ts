/** What one connection may send at once: requests in a row, and pieces of their bodies. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createFifo, type Fifo } from '../seam/fifo.ts'
import type { Limits } from '../seam/limits.ts'
import { Incoming } from './incoming.ts'

/** 'later': after others that came in the same turn of the event loop; 'ended': it was one too many. */
export type Order = 'now' | 'later' | 'ended'
export type FloodLimits = Pick<
  Limits,
  'requestsPerSocket' | 'requestsInFlight' | 'requestsPerTurn' | 'bodyPieces'
>

type Sent = {
  readonly socket: Socket
  requests: number
  unanswered: number
  newest: ServerResponse
  /** The turn of the event loop that those below are of. */
  turn: number
  requestsInTurn: number
  piecesInTurn: number
  headersInTurn: number
}

/** As many as requests have that mean it: a hundred of them with hundreds each take longer to parse than one client may hold the front. */
const HEADERS = 64
/** Of one request Node reads 2,000 at most, and they are no flood. */
const LEAST_HEADERS = 2_000

/** Where a socket has it. */
const SENT = Symbol('sent')
type Known = Socket & { [SENT]?: Sent }

/**
 * Looks at each request when its headers are here. A flood ends the connection by `end`: more unanswered requests than may be, or more
 * pieces in one turn of the event loop than two bodies may have, or headers than all the requests may have that it may wait for.
 * The last request that a connection may have closes it: Node's own count keeps it open and refuses what follows.
 */
export function watchFloods(
  limits: FloodLimits,
  end: (request: IncomingMessage) => void,
): (request: IncomingMessage, response: ServerResponse) => Order {
  const perTurn = Math.max(1, limits.requestsPerTurn)
  const piecesPerTurn = 2 * limits.bodyPieces
  const headersPerTurn = Math.max(LEAST_HEADERS, HEADERS * limits.requestsInFlight)
  let turn = 0
  let isCounted = false
  const next = () => {
    turn++
    isCounted = false
  }
  /** In this turn of the event loop. */
  function look(sent: Sent): void {
    if (!isCounted) {
      isCounted = true
      setImmediate(next)
    }
    if (sent.turn === turn) return
    sent.turn = turn
    sent.requestsInTurn = 0
    sent.piecesInTurn = 0
    sent.headersInTurn = 0
  }
  function entryOf(socket: Known, newest: ServerResponse): Sent {
    if (socket[SENT] !== undefined) return socket[SENT]
    const inTurn = { turn, requestsInTurn: 0, piecesInTurn: 0, headersInTurn: 0 }
    const made: Sent = { socket, newest, requests: 0, unanswered: 0, ...inTurn }
    socket[SENT] = made
    return made
  }

  return (request, response) => {
    const sent = entryOf(request.socket, response)
    sent.requests++
    // Answers go out in order: with the newest, all are out.
    sent.unanswered = sent.newest.writableFinished ? 1 : sent.unanswered + 1
    sent.newest = response
    if (sent.requests >= limits.requestsPerSocket) response.shouldKeepAlive = false
    look(sent)
    sent.headersInTurn += request.rawHeaders.length / 2
    if (sent.unanswered > limits.requestsInFlight || sent.headersInTurn > headersPerTurn) {
      end(request)
      return 'ended'
    }
    if (request instanceof Incoming && request.headers['transfer-encoding'] !== undefined)
      request.countPiece = () => {
        if (sent.socket.destroyed) return false
        look(sent)
        if (++sent.piecesInTurn <= piecesPerTurn) return true
        end(request)
        return false
      }
    const isEarly = ++sent.requestsInTurn <= perTurn && sent.unanswered <= perTurn
    return isEarly ? 'now' : 'later'
  }
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
