/** A request whose body goes directly from Node's parser to its reader. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Limits } from '../core/limits.ts'
import { longestResponseMs, type ResponseTimes } from '../core/queue-class.ts'
import { PushedRequest, removeParser } from '../wire/internals.ts'

// An import would also load the parts of undici that `node:http` exports: 40 ms of every start
// (2026-11).
const { createServer } = process.getBuiltinModule('node:http')

/** null: the body has ended. */
export type TakePiece = (piece: Buffer | null) => void

export class Incoming extends PushedRequest {
  /** undefined: the body waits in the stream. */
  taker: TakePiece | undefined = undefined
  /** Called when the whole request has arrived. */
  onArrived: ((request: Incoming) => void) | undefined = undefined

  /** Pseudo-address of the API key's owner (callers.ts). */
  caller: string | undefined = undefined
  hasUnknownKey = false

  /**
   * Called with the bytes of each piece. False: too many pieces, and the connection is being
   * closed.
   */
  countPiece: ((bytes: number) => boolean) | undefined = undefined

  override takePiece(piece: Buffer | null): boolean {
    if (piece === null) this.onArrived?.(this)
    else if (this.countPiece?.(piece.length) === false) return false
    if (this.taker === undefined) return this.pushToStream(piece)
    this.taker(piece)
    return true
  }
}

/** Milliseconds between checks for late headers and bodies. */
const CHECK_MS = 500

/** Creates Node's server of such requests, with its own limits set. */
export function openHttp(
  limits: ResponseTimes & Pick<Limits, 'headersMs' | 'requestMs' | 'keepAliveMs'>,
): ReturnType<typeof createServer> {
  const http = createServer({
    IncomingMessage: Incoming,
    // Node uses the shorter timeout for the headers and the longer one for the whole request.
    headersTimeout: Math.min(limits.headersMs, limits.requestMs),
    connectionsCheckingInterval: CHECK_MS,
  })
  http.requestTimeout = limits.requestMs
  http.keepAliveTimeout = limits.keepAliveMs
  // Longer than any response takes, so a connection that is silent for this time does not read its
  // response.
  http.setTimeout(limits.requestMs + longestResponseMs(limits))
  return http
}

/** Media types of JSON-RPC over HTTP, as go-ethereum accepts them. */
export const JSON_TYPES: readonly string[] = [
  'application/json',
  'application/json-rpc',
  'application/jsonrequest',
]
/**
 * Tells whether a content type is JSON.
 * @param contentType whole header; its case and parameters are ignored
 */
export const isJsonType = (contentType = ''): boolean =>
  JSON_TYPES.includes(contentType.split(';', 1)[0]!.trim().toLowerCase())

export const hasUnknownKey = (request: IncomingMessage): boolean =>
  request instanceof Incoming && request.hasUnknownKey

/**
 * Sends the body to `take`. Bytes that arrived earlier wait in the stream and are read from there.
 */
export function takeBody(request: IncomingMessage, take: TakePiece): void {
  if (request instanceof Incoming && request.readableLength === 0 && !request.complete) {
    request.taker = take
    return
  }
  request.on('data', take)
  request.once('end', () => take(null))
}

/** Discards the rest of a body. */
export function dropBody(request: IncomingMessage, take: TakePiece): void {
  request.off('data', take)
  if (request instanceof Incoming && request.taker === take) request.taker = () => {}
}

/** Stops reading and parsing a connection that is about to end. */
export function stopParsing(socket: Socket): void {
  socket.pause()
  removeParser(socket)
}

/**
 * Tells whether the Expect header is absent or 100-continue, which Node answers (RFC 9110 10.1.1).
 */
export const isExpectationKnown = ({ expect }: IncomingMessage['headers']): boolean =>
  expect === undefined || CONTINUE.test(expect)
/** Node's own pattern. */
const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i
