/**
 * Connections over a bound: each is told so with 503, unread, and closed a second later. So many of an address and of all are told at a
 * time; the others are closed on accept, because refusing must not become a load of its own.
 */
import type { OutgoingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { errorText } from '../json/envelope.ts'
import { openOwnCaps } from '../seam/caps.ts'
import { capReached, overloaded, type RpcError } from '../seam/errors.ts'
import type { Limits } from '../seam/limits.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'
import { createClosing, stopReading } from './closing.ts'

export type RefusalLimits = Pick<
  Limits,
  'socketsPerClient' | 'refusedSocketsPerClient' | 'refusedSocketsTotal'
>
/** 'address': it has as many sockets as it may; 'all': every socket of the server is busy. */
export type RefusalReason = 'address' | 'all'

export interface Refusals {
  /** Whether one more connection of this address would be told. */
  hasRoom(key: string): boolean
  /** Ends a connection that nothing was read of: told, or closed at once where there is no room. */
  refuse(socket: Socket, key: string, reason: RefusalReason): void
  /** Closes those that were told. */
  close(): void
}

/**
 * A socket that is closed with bytes that nobody has read resets its connection, and clients of some systems lose the answer with it. A
 * second is long enough for the answer to be read first.
 */
const CLOSE_AFTER_MS = 1_000
const RETRY_SECONDS = 1

export function createRefusals(
  limits: RefusalLimits,
  {
    caps = openOwnCaps,
    headers,
  }: { readonly caps?: OpenCaps | undefined; readonly headers: OutgoingHttpHeaders },
): Refusals {
  const told = caps('refusedSockets', {
    perClient: limits.refusedSocketsPerClient,
    total: limits.refusedSocketsTotal,
  })
  const texts: Readonly<Record<RefusalReason, string>> = {
    address: textOf(
      capReached(
        'too many connections from this address (--limit-sockets-per-client)',
        limits.socketsPerClient,
      ),
      headers,
    ),
    all: textOf(overloaded('all connections are in use', 1_000 * RETRY_SECONDS), headers),
  }
  /** Bounded by the caps. */
  const open = new Set<Socket>()
  const close = createClosing()

  return {
    hasRoom: (key) => told.total < limits.refusedSocketsTotal && !told.isFull(key),
    refuse(socket, key, reason) {
      const giveBack = told.take(key)
      if (giveBack === undefined) {
        socket.destroy()
        return
      }
      open.add(socket)
      stopReading(socket)
      const timer = setTimeout(() => close(() => socket.destroy()), CLOSE_AFTER_MS)
      socket.on('error', () => socket.destroy())
      socket.once('close', () => {
        clearTimeout(timer)
        open.delete(socket)
        giveBack()
      })
      socket.end(texts[reason], 'latin1')
    },
    close() {
      for (const socket of open) socket.destroy()
    },
  }
}

function textOf(error: RpcError, headers: OutgoingHttpHeaders): string {
  const body = errorText('null', error.toObject())
  const own = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n${own.join('')}Retry-After: ${RETRY_SECONDS}\r\nConnection: close\r\n\r\n${body}`
}
