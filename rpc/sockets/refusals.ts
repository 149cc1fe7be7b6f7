/**
 * Refuses connections above a limit with 503, without reading, and closes them a second later. Only
 * a limited number per address and in total get this response. Others are closed on accept, because
 * refusals must stay cheap.
 */
import type { OutgoingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { openLocalConcurrencyLimit } from '../core/concurrency-limit.ts'
import { concurrencyLimitReached, overloaded, type RpcError } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import { errorText } from '../json/envelope.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import { createClosing, stopReading } from './closing.ts'

export type RefusalLimits = Pick<
  Limits,
  'socketsPerClient' | 'refusedSocketsPerClient' | 'refusedSocketsTotal'
>
/** 'address': the address has its maximum of sockets; 'all': every socket of the server is busy. */
export type RefusalReason = 'address' | 'all'

export interface Refusals {
  /** Tells whether another connection of this address would get a response. */
  hasCapacity(key: string): boolean
  /** Ends an unread connection: with a response, or at once without capacity. */
  refuse(socket: Socket, key: string, reason: RefusalReason): void
  /** Closes connections that wait after their response. */
  close(): void
}

/**
 * Milliseconds between the response and the close. Closing a socket with unread bytes resets the
 * connection, and some clients then lose the response. A second suffices to read it.
 */
const CLOSE_AFTER_MS = 1_000
const RETRY_SECONDS = 1

export function createRefusals(
  limits: RefusalLimits,
  {
    concurrencyLimits = openLocalConcurrencyLimit,
    headers,
  }: {
    readonly concurrencyLimits?: OpenConcurrencyLimit | undefined
    readonly headers: OutgoingHttpHeaders
  },
): Refusals {
  const refused = concurrencyLimits('refusedSockets', {
    perClient: limits.refusedSocketsPerClient,
    total: limits.refusedSocketsTotal,
  })
  const texts: Readonly<Record<RefusalReason, string>> = {
    address: textOf(
      concurrencyLimitReached(
        'too many connections from this address (--limit-sockets-per-client)',
        limits.socketsPerClient,
      ),
      headers,
    ),
    all: textOf(overloaded('all connections are in use', 1_000 * RETRY_SECONDS), headers),
  }
  /** Refused sockets, bounded by the concurrency limits. */
  const open = new Set<Socket>()
  const close = createClosing()

  return {
    hasCapacity: (key) => refused.total < limits.refusedSocketsTotal && !refused.isFull(key),
    refuse(socket, key, reason) {
      const giveBack = refused.take(key)
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
