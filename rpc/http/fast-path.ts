/**
 * Fast path of plain requests: all connections that llhttp reads from their sockets. `line.ts`
 * bounds each of them; this file closes late and idle ones.
 */
import type { Socket } from 'node:net'
import type { Limits } from '../core/limits.ts'
import { longestResponseMs, type ResponseTimes } from '../core/queue-class.ts'
import { POINT_BYTES } from '../limiter/points.ts'
import { RequestReader } from '../wire/request-reader.ts'
import { createResponseHeads } from '../wire/response-head.ts'
import { Line, type Lines } from './line.ts'
import type { Sockets } from './sockets.ts'

export type FastPathOptions = Omit<Lines, 'reader' | 'heads' | 'all' | 'maxBytes' | 'checks'> & {
  readonly sockets: Pick<Sockets, 'closeLate' | 'closeYielded'>
  readonly limits: ResponseTimes &
    Pick<Limits, 'bodyBytes' | 'headersMs' | 'requestMs' | 'keepAliveMs'>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Milliseconds since 1970. */
  readonly clock: () => number
}
export interface FastPath {
  /** Takes an admitted socket. */
  open(socket: Socket, toNode: (socket: Socket) => void): void
  /** Closes its sockets; later ones go to Node. */
  close(): void
}

/** Milliseconds between checks for late and idle connections. */
const CHECK_MS = 500
/** Time that Node leaves an idle connection open beyond its announced timeout. */
const KEEP_ALIVE_GRACE_MS = 1_000

export function createFastPath(options: FastPathOptions): FastPath {
  const { limits, sockets, now, clock } = options
  const { keepAliveMs } = limits
  const all = new Set<Line>()
  const lines: Lines = {
    ...options,
    reader: new RequestReader(),
    heads: createResponseHeads(options.headersWithoutOrigin, { keepAliveMs, clock }),
    all,
    maxBytes: Math.min(limits.bodyBytes, POINT_BYTES),
    checks: 0,
  }
  const silenceMs = limits.requestMs + longestResponseMs(limits)
  const headersMs = Math.min(limits.headersMs, limits.requestMs)
  let isClosed = false

  function check(): void {
    const time = now()
    lines.checks++
    for (const line of all) {
      const silentMs = (lines.checks - line.seenAt - 1) * CHECK_MS
      if (line.since !== undefined) {
        if (time - line.since <= (line.isHead ? headersMs : limits.requestMs)) continue
        all.delete(line)
        sockets.closeLate(line.socket)
      } else if (silentMs >= (line.isBusy ? silenceMs : keepAliveMs + KEEP_ALIVE_GRACE_MS))
        line.socket.destroy()
    }
    sockets.closeYielded(time)
  }
  const timer = setInterval(check, CHECK_MS).unref()

  return {
    open(socket, toNode) {
      if (isClosed) toNode(socket)
      else all.add(new Line(socket, toNode, lines))
    },
    close() {
      isClosed = true
      clearInterval(timer)
      for (const { socket } of all) socket.destroy()
    },
  }
}
