/**
 * The short way of plain requests: all connections that are read by llhttp on their sockets, which bounds them has each (`line.ts`), and
 * how long each may be late or silent.
 */
import type { Socket } from 'node:net'
import { POINT_BYTES } from '../limiter/points.ts'
import { type Deadlines, longestMs } from '../seam/lane.ts'
import type { Limits } from '../seam/limits.ts'
import { createAnswerHeads } from '../wire/answer-head.ts'
import { RequestReader } from '../wire/request-reader.ts'
import { Line, type Lines } from './line.ts'
import type { Sockets } from './sockets.ts'

export type ShortWayOptions = Omit<Lines, 'reader' | 'heads' | 'all' | 'mostBytes' | 'looks'> & {
  readonly sockets: Pick<Sockets, 'closeLate' | 'closeHandedOver'>
  readonly limits: Deadlines & Pick<Limits, 'bodyBytes' | 'headersMs' | 'requestMs' | 'keepAliveMs'>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Milliseconds since 1970. */
  readonly clock: () => number
}
export interface ShortWay {
  /** Takes a socket that has a place. */
  open(socket: Socket, toNode: (socket: Socket) => void): void
  /** Ends what it reads; further sockets are Node's. */
  close(): void
}

/** Between two looks for what is late or silent. */
const CHECK_MS = 500
/** What Node gives an idle connection beyond what it has told its client. */
const KEEP_ALIVE_GRACE_MS = 1_000

export function createShortWay(options: ShortWayOptions): ShortWay {
  const { limits, sockets, now, clock } = options
  const { keepAliveMs } = limits
  const all = new Set<Line>()
  const lines: Lines = {
    ...options,
    reader: new RequestReader(),
    heads: createAnswerHeads(options.headersWithoutOrigin, { keepAliveMs, clock }),
    all,
    mostBytes: Math.min(limits.bodyBytes, POINT_BYTES),
    looks: 0,
  }
  const silenceMs = limits.requestMs + longestMs(limits)
  const headersMs = Math.min(limits.headersMs, limits.requestMs)
  let isClosed = false

  function look(): void {
    const time = now()
    lines.looks++
    for (const line of all) {
      const silentMs = (lines.looks - line.seenAt - 1) * CHECK_MS
      if (line.since !== undefined) {
        if (time - line.since <= (line.isHead ? headersMs : limits.requestMs)) continue
        all.delete(line)
        sockets.closeLate(line.socket)
      } else if (silentMs >= (line.isBusy ? silenceMs : keepAliveMs + KEEP_ALIVE_GRACE_MS))
        line.socket.destroy()
    }
    sockets.closeHandedOver(time)
  }
  const timer = setInterval(look, CHECK_MS).unref()

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
