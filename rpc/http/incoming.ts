/**
 * A request whose body goes straight from Node's parser to whoever reads it. By the way of streams each piece costs twice as much, of a
 * body in chunks of one byte 40 ms for each 64 kB that are read at once; so 20 (2026-11).
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { type Deadlines, longestMs } from '../seam/lane.ts'
import type { Limits } from '../seam/limits.ts'

// An import would also load what `node:http` exports of undici: 40 ms of every start (2026-11).
const { createServer, IncomingMessage: Message } = process.getBuiltinModule('node:http')

/** null: that was all. */
export type TakePiece = (piece: Buffer | null) => void

export class Incoming extends Message {
  /** undefined: the body waits in the stream. */
  taker: TakePiece | undefined = undefined
  /** The whole request is here. */
  onArrived: ((request: Incoming) => void) | undefined = undefined

  /** From its API key (callers.ts). */
  caller: string | undefined = undefined
  hasUnknownKey = false

  /** Told of each piece and its bytes; false: it is one too many, and the connection is ending. */
  countPiece: ((bytes: number) => boolean) | undefined = undefined

  override push(piece: Buffer | null): boolean {
    if (piece === null) this.onArrived?.(this)
    else if (this.countPiece?.(piece.length) === false) return false
    if (this.taker === undefined) return super.push(piece)
    this.taker(piece)
    return true
  }
}

/** Between two looks for headers and bodies that are late. */
const CHECK_MS = 500

/** Node's server of such requests, with its own bounds set. */
export function openHttp(
  limits: Deadlines & Pick<Limits, 'headersMs' | 'requestMs' | 'keepAliveMs'>,
): ReturnType<typeof createServer> {
  const http = createServer({
    IncomingMessage: Incoming,
    // Node takes the shorter one for the headers' and the longer one for the whole request's, whichever is which.
    headersTimeout: Math.min(limits.headersMs, limits.requestMs),
    connectionsCheckingInterval: CHECK_MS,
  })
  http.requestTimeout = limits.requestMs
  http.keepAliveTimeout = limits.keepAliveMs
  // Longer than any answer takes: what is silent for so long does not read its answer.
  http.setTimeout(limits.requestMs + longestMs(limits))
  return http
}

/** Media types of JSON-RPC over HTTP, as go-ethereum takes them. */
export const JSON_TYPES: readonly string[] = [
  'application/json',
  'application/json-rpc',
  'application/jsonrequest',
]
/** @param contentType whole header, whose letters and parameters do not matter */
export const isJsonType = (contentType = ''): boolean =>
  JSON_TYPES.includes(contentType.split(';', 1)[0]!.trim().toLowerCase())

export const hasUnknownKey = (request: IncomingMessage): boolean =>
  request instanceof Incoming && request.hasUnknownKey

/** From now on to this taker; what came before it was there waits in the stream and is taken from that. */
export function takeBody(request: IncomingMessage, take: TakePiece): void {
  if (request instanceof Incoming && request.readableLength === 0 && !request.complete) {
    request.taker = take
    return
  }
  request.on('data', take)
  request.once('end', () => take(null))
}

/** What is still coming goes to nobody. */
export function dropBody(request: IncomingMessage, take: TakePiece): void {
  request.off('data', take)
  if (request instanceof Incoming && request.taker === take) request.taker = () => {}
}

/**
 * For a connection that ends: what was read of it already goes by unseen. 64 kB may be 10,000 pieces, 10 ms of the parser (2026-11), and
 * whoever destroys or pauses the socket stops the next read only. This is what Node does when a socket has closed, a turn of the loop too
 * late (`freeParser`, lib/_http_common.js).
 */
export function stopParsing(socket: Socket): void {
  const { parser } = socket as Socket & { readonly parser?: { remove?(): void } | null }
  socket.pause()
  parser?.remove?.()
}

/** 100-continue, which Node answers to, or none (RFC 9110 10.1.1). */
export const isExpectationKnown = ({ expect }: IncomingMessage['headers']): boolean =>
  expect === undefined || CONTINUE.test(expect)
/** As Node finds it. */
const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i
