/**
 * A connection whose plain requests are read by llhttp and answered with one write. Node takes over
 * the connection at the first bytes that are not a plain request. Requests that may be refused or
 * delayed also go to Node. The limits are those of Node's path, and the counts continue there.
 */
import type { OutgoingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { Part, Responder, RpcResponse } from '../core/exchange.ts'
import { NOTHING_PREPAID } from '../core/prepaid.ts'
import { clientAddress, limiterKey, type TrustedProxies } from '../limiter/address.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { BufferedRequest } from '../wire/buffered-request.ts'
import { PlainExchange } from '../wire/plain-exchange.ts'
import type { Outcome, RequestReader } from '../wire/request-reader.ts'
import type { ResponseHeads } from '../wire/response-head.ts'
import type { Encoding } from './encoding.ts'
import type { createTurns, Floods } from './floods.ts'
import { ENDPOINTS, takerOfSocket } from './http.ts'
import type { Intake } from './intake.ts'
import type { Outgoing } from './outgoing.ts'
import type { ServerState } from './server-state.ts'
import type { Sockets } from './sockets.ts'
import type { Unsent } from './unsent.ts'

/** Resources that all fast-path connections share. */
export type Lines = {
  readonly trustedProxies: TrustedProxies
  readonly respond: Responder
  readonly limiter: Pick<Limiter, 'throttled'>
  readonly isHostAllowed: (host: string | undefined) => boolean
  readonly isAnyOrigin: boolean
  readonly floods: Floods
  readonly later: ReturnType<typeof createTurns>
  readonly sockets: Pick<Sockets, 'startPlain' | 'endPlain' | 'yieldSocket' | 'onBroken'>
  readonly state: ServerState
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly encoding: Encoding
  /** Response headers that do not depend on a browser's origin. */
  readonly headersWithoutOrigin: OutgoingHttpHeaders
  readonly intake: Intake
  /** Reports a response that could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly reader: RequestReader
  readonly heads: ResponseHeads
  /** Open connections of the fast path. */
  readonly all: Set<Line>
  /** Maximum bytes of a body in the fast path: one point, which is paid with the request. */
  readonly maxBytes: number
  /** Number of checks for late connections so far. */
  checks: number
}

/**
 * Reasons why a connection is not read. CLOGGED: its client does not read responses. DEFERRED:
 * other connections have their turn. LEAVING: Node will take over.
 */
const CLOGGED = 1
const DEFERRED = 2
const LEAVING = 4

const NOTHING = Buffer.alloc(0)
const ignore = (): void => {}

export class Line {
  readonly socket: Socket
  /** Start of the incomplete request, or of a new connection. undefined: idle or answering. */
  since: number | undefined
  /** The headers of the incomplete request are not complete either. */
  isHead = true
  /** Number of the last check at which the connection was active. */
  seenAt: number
  readonly #lines: Lines
  readonly #toNode: (socket: Socket) => void
  /** Address of the peer. */
  readonly #address: string
  /** Unanswered requests, in order. */
  readonly #requested: PlainExchange[] = []
  #buffered: BufferedRequest | undefined
  /** Bytes that were read from the socket but not parsed. */
  #rest: Buffer | undefined
  #stops = 0
  #isScheduled = false
  #isReading = false
  #isOpen = true
  /** Ends a large response that is being sent. */
  #sent: (() => void) | undefined

  constructor(socket: Socket, toNode: (socket: Socket) => void, lines: Lines) {
    this.socket = socket
    this.since = lines.now()
    this.seenAt = lines.checks
    this.#lines = lines
    this.#toNode = toNode
    this.#address = clientAddress(socket.remoteAddress, undefined, lines.trustedProxies)
    socket.on('data', this.#take).on('end', this.#end).on('close', this.#close)
    socket.on('error', ignore)
  }

  /** True while a response is being made or waits for the client. */
  get isBusy(): boolean {
    return this.#requested.length > 0 || this.socket.writableLength > 0
  }

  #take = (chunk: Buffer): void => {
    this.seenAt = this.#lines.checks
    const buffered = this.#buffered
    if (buffered === undefined) this.#read(chunk, false)
    else if (buffered.add(chunk)) this.#read(buffered.concat(), false)
    else if (!buffered.fits()) this.#yieldSocket(buffered.concat())
  }

  /** @param isTurn the first request has a turn of its own */
  #read(bytes: Buffer, isTurn: boolean): void {
    this.#isReading = true
    this.#readAll(bytes, isTurn)
    this.#isReading = false
    if (this.#requested.length > 0) this.#flush()
  }
  #readAll(bytes: Buffer, isTurn: boolean): void {
    const { reader, floods } = this.#lines
    for (let at = 0; at < bytes.length; ) {
      // A deferred connection answers one request in each turn.
      if (isTurn ? at > 0 : !floods.hasTurn(this.socket)) {
        this.#rest = bytes.subarray(at)
        this.#stop(DEFERRED)
        this.#schedule()
        return
      }
      const outcome = reader.read(bytes, at)
      const isOurs = outcome === 'head' || this.#isOurs(outcome)
      if (isOurs && outcome === 'complete') {
        at = reader.end
        this.#forgetBuffered()
        if (!this.#request(bytes)) return
      } else {
        const rest = at === 0 ? bytes : bytes.subarray(at)
        if (!isOurs || !this.#buffer(rest, outcome === 'head', reader.end - at))
          this.#yieldSocket(rest)
        return
      }
    }
  }

  /** Tells whether the fast path can handle the request without Node. */
  #isOurs(outcome: Outcome): boolean {
    if (outcome !== 'complete' && outcome !== 'body') return false
    const { reader, state, floods, limiter } = this.#lines
    const { isAnyOrigin, isHostAllowed, maxBytes } = this.#lines
    return (
      reader.bodyBytes <= maxBytes &&
      ENDPOINTS.has(reader.url) &&
      (isAnyOrigin || !reader.hasOrigin) &&
      isHostAllowed(reader.host) &&
      state.paused === undefined &&
      !floods.isNextLast(this.socket) &&
      limiter.throttled(this.#client()) === undefined
    )
  }
  /** Returns the client of the last request read. */
  #client(): string {
    const { reader, trustedProxies } = this.#lines
    return reader.forwardedFor === undefined
      ? this.#address
      : clientAddress(this.socket.remoteAddress, reader.forwardedFor, trustedProxies)
  }

  /** Buffers an incomplete request. False: Node must read it. */
  #buffer(rest: Buffer, isHead: boolean, wanted: number): boolean {
    if (this.#requested.length > 0) return false
    const { intake, sockets, now } = this.#lines
    if (this.#buffered === undefined) {
      const cut = () => this.#yieldSocket(this.#buffered!.concat())
      this.#buffered = new BufferedRequest(() => intake.open(limiterKey(this.#address), cut))
      this.since = now()
    }
    this.isHead = isHead
    if (!this.#buffered.start(rest, isHead, wanted)) return false
    if (isHead || this.#buffered.isArriving) return true
    this.#buffered.isArriving = true
    sockets.startPlain(this.socket, 'arriving')
    return true
  }
  #forgetBuffered(): void {
    const buffered = this.#buffered
    this.since = undefined
    if (buffered === undefined) return
    this.#buffered = undefined
    buffered.release()
    if (buffered.isArriving) this.#lines.sockets.endPlain(this.socket)
  }

  /** Answers a complete request. False: the connection was closed. */
  #request(bytes: Buffer): boolean {
    const { reader, floods, sockets, state, respond } = this.#lines
    const { end, bodyBytes, headers } = reader
    const text = bytes.toString('utf8', end - bodyBytes, end)
    const exchange = new PlainExchange(this.#client(), ENDPOINTS.get(reader.url)!, reader)
    if (!floods.admit(this.socket, exchange, headers)) return false
    sockets.startPlain(this.socket, 'complete')
    this.#requested.push(exchange)
    state.started()
    const response = respond(text, exchange, NOTHING_PREPAID)
    if (response instanceof Promise) void response.then((one) => this.#respond(exchange, one))
    else this.#respond(exchange, response)
    return this.#isOpen
  }

  #respond(exchange: PlainExchange, response: RpcResponse): void {
    const encoded = this.#encode(exchange, response)
    if (encoded === undefined) this.#finish(exchange, response)
    else void encoded.then((one) => this.#finish(exchange, one))
  }
  #encode(exchange: PlainExchange, response: RpcResponse): Promise<RpcResponse> | undefined {
    const { acceptEncoding } = exchange
    if (acceptEncoding === undefined) return undefined
    const { encoding, headersWithoutOrigin } = this.#lines
    const request = { headers: { 'accept-encoding': acceptEncoding } }
    const address = () => exchange.address
    const headers = headersWithoutOrigin
    return encoding.encode(response, { address, request, response: exchange, headers })
  }
  #finish(exchange: PlainExchange, response: RpcResponse): void {
    exchange.response = response
    const isLarge = response.parts !== undefined && this.#isOpen
    if (!isLarge) this.#lines.state.ended()
    if (this.#isOpen && !this.#isReading && this.#requested[0] === exchange) this.#flush()
  }

  /** Sends all responses that are ready, in order and with one write. */
  #flush(): void {
    if (this.#sent !== undefined) return
    const requested = this.#requested
    let text = ''
    let bytes = 0
    let isAscii = true
    try {
      for (let next = requested[0]?.response; next !== undefined; next = requested[0]?.response) {
        if (next.parts !== undefined) break
        const { heads } = this.#lines
        if (next.text === undefined) text += heads.withoutText(next)
        else {
          const length = Buffer.byteLength(next.text)
          text += heads.of(next, length) + next.text
          bytes += length
          isAscii &&= length === next.text.length
        }
        this.#over()
      }
    } catch (error) {
      this.#lines.onBug(error)
      this.socket.destroy()
      return
    }
    if (text !== '') this.#write(text, bytes, isAscii)
    const large = requested[0]?.response
    if (large?.parts !== undefined) this.#sendParts(large, large.parts)
    this.#goOn()
  }
  /** Removes the oldest request, which is answered. */
  #over(): void {
    this.#requested.shift()!.end()
    this.#lines.sockets.endPlain(this.socket)
  }

  #write(text: string, bytes: number, isAscii: boolean): void {
    const { socket } = this
    // The socket is closed for writing after the peer's end, and Node drops such a response too.
    if (!socket.writable) return
    this.seenAt = this.#lines.checks
    socket.write(text, isAscii ? 'latin1' : 'utf8')
    // Bytes that the system did not take at once are counted until the client reads them.
    if (socket.writableLength > 0) this.#clog(bytes)
  }
  /** Stops reading until the client takes its responses. @param bytes of these responses */
  #clog(bytes: number): void {
    const { socket } = this
    const forget = this.#lines.unsent.add(bytes, () => socket.destroy())
    this.#stop(CLOGGED)
    socket.write(NOTHING, () => {
      forget()
      this.#unclog()
    })
  }
  #unclog(): void {
    this.seenAt = this.#lines.checks
    if (this.socket.writableLength === 0) this.#goOn(CLOGGED)
  }

  #sendParts(response: RpcResponse, parts: readonly Part[]): void {
    const { socket } = this
    const { heads, outgoing, unsent, state, onBug } = this.#lines
    let length = 0
    for (const part of parts) length += part.length
    const forget = unsent.add(length, () => socket.destroy())
    this.#sent = () => {
      this.#sent = undefined
      forget()
      state.ended()
    }
    this.#stop(CLOGGED)
    const taker = takerOfSocket(socket, () => {
      if (this.#sent === undefined) return
      this.#sent()
      this.#over()
      this.#unclog()
      this.#flush()
    })
    try {
      socket.write(heads.of(response, length), 'latin1')
      outgoing.send(parts, taker, onBug)
    } catch (error) {
      onBug(error)
      socket.destroy()
    }
  }

  #stop(why: number): void {
    if (this.#stops === 0) this.socket.pause()
    this.#stops |= why
  }
  /** Removes reasons against reading and continues if none is left. */
  #goOn(gone = 0): void {
    if (!this.#isOpen || this.#stops === 0) return
    this.#stops &= ~gone
    if ((this.#stops & LEAVING) !== 0) {
      if (this.#requested.length === 0) this.#yieldSocket(this.#rest!)
    } else if (this.#stops === DEFERRED && this.#rest !== undefined) this.#schedule()
    else if (this.#stops === 0) this.socket.resume()
  }
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#lines.later(limiterKey(this.#address), this.#turn)
  }
  #turn = (): void => {
    this.#isScheduled = false
    const rest = this.#rest
    if (!this.#isOpen || this.#stops !== DEFERRED || rest === undefined) return
    this.#rest = undefined
    // Reading resumes only if no further request waits for a turn.
    this.#read(rest, true)
    if (this.#rest === undefined) this.#goOn(DEFERRED)
  }

  /** Gives the connection to Node from these bytes on, once earlier requests are answered. */
  #yieldSocket(rest: Buffer): void {
    if (!this.#isOpen) return
    if (this.socket.destroyed) {
      this.#forgetBuffered()
      return
    }
    if (this.#requested.length > 0) {
      this.#rest = rest
      this.#stop(LEAVING)
      return
    }
    const { socket } = this
    const since = this.#buffered === undefined ? undefined : this.since
    this.#forgetBuffered()
    this.#isOpen = false
    this.#rest = undefined
    this.#lines.all.delete(this)
    socket.off('data', this.#take).off('end', this.#end).off('close', this.#close)
    socket.pause()
    socket.unshift(rest)
    this.#toNode(socket)
    socket.off('error', ignore)
    if (since !== undefined) this.#lines.sockets.yieldSocket(socket, since)
    socket.resume()
  }

  /** Handles the end of the peer's input. */
  #end = (): void => {
    const { reader, sockets } = this.#lines
    if (this.#buffered !== undefined && reader.isCutOff(this.#buffered.concat()))
      sockets.onBroken(cutOffError(), this.socket)
    else this.socket.end()
  }
  #close = (): void => {
    this.#isOpen = false
    this.#rest = undefined
    this.#forgetBuffered()
    this.#lines.all.delete(this)
    const sending = this.#sent === undefined ? undefined : this.#requested[0]
    this.#sent?.()
    for (const one of this.#requested) {
      if (one.response?.parts !== undefined && one !== sending) this.#lines.state.ended()
      one.end()
    }
  }
}

const cutOffError = (): Error =>
  Object.assign(new Error('Parse Error'), { code: 'HPE_INVALID_EOF_STATE' })
