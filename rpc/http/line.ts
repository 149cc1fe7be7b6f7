/**
 * A connection whose plain requests are read by llhttp and answered with one write. It is Node's from the first bytes on that are not such
 * a request, with all that was read of them; what may be refused, held or closed is Node's as well. Its bounds are those of Node's way,
 * and count on there.
 */
import type { OutgoingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { Limiter } from '../limiter/limiter.ts'
import { clientAddress, limiterKey, type TrustedProxies } from '../seam/address.ts'
import type { Answer, Answerer, Part } from '../seam/exchange.ts'
import { UNPAID } from '../seam/paid.ts'
import type { AnswerHeads } from '../wire/answer-head.ts'
import { KeptRequest } from '../wire/kept-request.ts'
import { PlainExchange } from '../wire/plain-exchange.ts'
import type { Outcome, RequestReader } from '../wire/request-reader.ts'
import type { Encoding } from './encoding.ts'
import type { createTurns, Floods } from './floods.ts'
import { ENDPOINTS, takerOfSocket } from './http.ts'
import type { Intake } from './intake.ts'
import type { Outgoing } from './outgoing.ts'
import type { Sockets } from './sockets.ts'
import type { ServerState } from './state.ts'
import type { Unsent } from './unsent.ts'

/** What all of them share. */
export type Lines = {
  readonly trustedProxies: TrustedProxies
  readonly answer: Answerer
  readonly limiter: Pick<Limiter, 'held'>
  readonly isHostAllowed: (host: string | undefined) => boolean
  readonly isAnyOrigin: boolean
  readonly floods: Floods
  readonly later: ReturnType<typeof createTurns>
  readonly sockets: Pick<Sockets, 'beginPlain' | 'endPlain' | 'handOver' | 'onBroken'>
  readonly state: ServerState
  readonly unsent: Unsent
  readonly outgoing: Outgoing
  readonly encoding: Encoding
  /** Headers of an answer that no browser's origin decides. */
  readonly headersWithoutOrigin: OutgoingHttpHeaders
  readonly intake: Intake
  /** The answer could not be sent, which no client can cause. */
  readonly onBug: (error: unknown) => void
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly reader: RequestReader
  readonly heads: AnswerHeads
  /** Those that are open. */
  readonly all: Set<Line>
  /** Bytes of a body that is read here: its only point is paid when it is answered. */
  readonly mostBytes: number
  /** How often it was looked for what is late. */
  looks: number
}

/** Why a connection is not read: its peer does not take answers; others have their turn; it will be Node's. */
const CLOGGED = 1
const DEFERRED = 2
const LEAVING = 4

const NOTHING = Buffer.alloc(0)
const ignore = (): void => {}

export class Line {
  readonly socket: Socket
  /** When the request began that is not whole, or the connection on which none was; undefined: idle, or answering. */
  since: number | undefined
  /** Of that, not even all headers are here. */
  isHead = true
  /** At which look something had moved last. */
  seenAt: number
  readonly #lines: Lines
  readonly #toNode: (socket: Socket) => void
  /** Of the peer. */
  readonly #address: string
  /** In the order in which they are answered. */
  readonly #asked: PlainExchange[] = []
  #kept: KeptRequest | undefined
  /** Read from the socket, and not looked at yet. */
  #rest: Buffer | undefined
  #stops = 0
  #isScheduled = false
  #isReading = false
  #isOpen = true
  /** A large answer is on its way: what is done when it is over. */
  #sent: (() => void) | undefined

  constructor(socket: Socket, toNode: (socket: Socket) => void, lines: Lines) {
    this.socket = socket
    this.since = lines.now()
    this.seenAt = lines.looks
    this.#lines = lines
    this.#toNode = toNode
    this.#address = clientAddress(socket.remoteAddress, undefined, lines.trustedProxies)
    socket.on('data', this.#take).on('end', this.#end).on('close', this.#close)
    socket.on('error', ignore)
  }

  /** An answer is being made, or is not taken. */
  get isBusy(): boolean {
    return this.#asked.length > 0 || this.socket.writableLength > 0
  }

  #take = (chunk: Buffer): void => {
    this.seenAt = this.#lines.looks
    const kept = this.#kept
    if (kept === undefined) this.#read(chunk, false)
    else if (kept.add(chunk)) this.#read(kept.joined(), false)
    else if (!kept.isHeld()) this.#handOver(kept.joined())
  }

  /** @param isTurn the first of them has a turn of its own */
  #read(bytes: Buffer, isTurn: boolean): void {
    this.#isReading = true
    this.#readAll(bytes, isTurn)
    this.#isReading = false
    if (this.#asked.length > 0) this.#flush()
  }
  #readAll(bytes: Buffer, isTurn: boolean): void {
    const { reader, floods } = this.#lines
    for (let at = 0; at < bytes.length; ) {
      // Of those that wait for their turn, one in each.
      if (isTurn ? at > 0 : !floods.hasTurn(this.socket)) {
        this.#rest = bytes.subarray(at)
        this.#stop(DEFERRED)
        this.#schedule()
        return
      }
      const outcome = reader.read(bytes, at)
      const isOurs = outcome === 'head' || this.#isOurs(outcome)
      if (isOurs && outcome === 'whole') {
        at = reader.end
        this.#forgetKept()
        if (!this.#ask(bytes)) return
      } else {
        const rest = at === 0 ? bytes : bytes.subarray(at)
        if (!isOurs || !this.#keep(rest, outcome === 'head', reader.end - at)) this.#handOver(rest)
        return
      }
    }
  }

  /** Nothing about it needs Node. */
  #isOurs(outcome: Outcome): boolean {
    if (outcome !== 'whole' && outcome !== 'body') return false
    const { reader, state, floods, limiter } = this.#lines
    const { isAnyOrigin, isHostAllowed, mostBytes } = this.#lines
    return (
      reader.bodyBytes <= mostBytes &&
      ENDPOINTS.has(reader.url) &&
      (isAnyOrigin || !reader.hasOrigin) &&
      isHostAllowed(reader.host) &&
      state.paused === undefined &&
      !floods.isNextLast(this.socket) &&
      limiter.held(this.#client()) === undefined
    )
  }
  /** Who has sent what was read last. */
  #client(): string {
    const { reader, trustedProxies } = this.#lines
    return reader.forwardedFor === undefined
      ? this.#address
      : clientAddress(this.socket.remoteAddress, reader.forwardedFor, trustedProxies)
  }

  /** Until its rest has come; false: that is Node's. */
  #keep(rest: Buffer, isHead: boolean, wanted: number): boolean {
    if (this.#asked.length > 0) return false
    const { intake, sockets, now } = this.#lines
    if (this.#kept === undefined) {
      const cut = () => this.#handOver(this.#kept!.joined())
      this.#kept = new KeptRequest(() => intake.open(limiterKey(this.#address), cut))
      this.since = now()
    }
    this.isHead = isHead
    if (!this.#kept.keep(rest, isHead, wanted)) return false
    if (isHead || this.#kept.isArriving) return true
    this.#kept.isArriving = true
    sockets.beginPlain(this.socket, 'arriving')
    return true
  }
  #forgetKept(): void {
    const kept = this.#kept
    this.since = undefined
    if (kept === undefined) return
    this.#kept = undefined
    kept.release()
    if (kept.isArriving) this.#lines.sockets.endPlain(this.socket)
  }

  /** False: the connection has ended with it. */
  #ask(bytes: Buffer): boolean {
    const { reader, floods, sockets, state, answer } = this.#lines
    const { end, bodyBytes, headers } = reader
    const text = bytes.toString('utf8', end - bodyBytes, end)
    const exchange = new PlainExchange(this.#client(), ENDPOINTS.get(reader.url)!, reader)
    if (!floods.admit(this.socket, exchange, headers)) return false
    sockets.beginPlain(this.socket, 'whole')
    this.#asked.push(exchange)
    state.begun()
    const answered = answer(text, exchange, UNPAID)
    if (answered instanceof Promise) void answered.then((one) => this.#answer(exchange, one))
    else this.#answer(exchange, answered)
    return this.#isOpen
  }

  #answer(exchange: PlainExchange, answer: Answer): void {
    const encoded = this.#encode(exchange, answer)
    if (encoded === undefined) this.#finish(exchange, answer)
    else void encoded.then((one) => this.#finish(exchange, one))
  }
  #encode(exchange: PlainExchange, answer: Answer): Promise<Answer> | undefined {
    const { acceptEncoding } = exchange
    if (acceptEncoding === undefined) return undefined
    const { encoding, headersWithoutOrigin } = this.#lines
    const request = { headers: { 'accept-encoding': acceptEncoding } }
    const address = () => exchange.address
    const headers = headersWithoutOrigin
    return encoding.encode(answer, { address, request, response: exchange, headers })
  }
  #finish(exchange: PlainExchange, answer: Answer): void {
    exchange.answer = answer
    const isLarge = answer.parts !== undefined && this.#isOpen
    if (!isLarge) this.#lines.state.ended()
    if (this.#isOpen && !this.#isReading && this.#asked[0] === exchange) this.#flush()
  }

  /** Sends what can be sent in its order, with one write. */
  #flush(): void {
    if (this.#sent !== undefined) return
    const asked = this.#asked
    let text = ''
    let bytes = 0
    let isAscii = true
    try {
      for (let next = asked[0]?.answer; next !== undefined; next = asked[0]?.answer) {
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
    const large = asked[0]?.answer
    if (large?.parts !== undefined) this.#sendParts(large, large.parts)
    this.#goOn()
  }
  /** The oldest is answered. */
  #over(): void {
    this.#asked.shift()!.end()
    this.#lines.sockets.endPlain(this.socket)
  }

  #write(text: string, bytes: number, isAscii: boolean): void {
    const { socket } = this
    // Its peer has said that it sends no more, and was told the same, as Node does.
    if (!socket.writable) return
    this.seenAt = this.#lines.looks
    socket.write(text, isAscii ? 'latin1' : 'utf8')
    // What the system has not taken at once is kept until its client reads.
    if (socket.writableLength > 0) this.#clog(bytes)
  }
  /** @param bytes of answers that are not taken */
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
    this.seenAt = this.#lines.looks
    if (this.socket.writableLength === 0) this.#goOn(CLOGGED)
  }

  #sendParts(answer: Answer, parts: readonly Part[]): void {
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
      socket.write(heads.of(answer, length), 'latin1')
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
  /** Something that spoke against reading may have gone. */
  #goOn(gone = 0): void {
    if (!this.#isOpen || this.#stops === 0) return
    this.#stops &= ~gone
    if ((this.#stops & LEAVING) !== 0) {
      if (this.#asked.length === 0) this.#handOver(this.#rest!)
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
    // Not resumed before it is known whether there is more than its turn.
    this.#read(rest, true)
    if (this.#rest === undefined) this.#goOn(DEFERRED)
  }

  /** The connection is Node's, which begins with these bytes, when all before them is answered. */
  #handOver(rest: Buffer): void {
    if (!this.#isOpen) return
    if (this.socket.destroyed) {
      this.#forgetKept()
      return
    }
    if (this.#asked.length > 0) {
      this.#rest = rest
      this.#stop(LEAVING)
      return
    }
    const { socket } = this
    const since = this.#kept === undefined ? undefined : this.since
    this.#forgetKept()
    this.#isOpen = false
    this.#rest = undefined
    this.#lines.all.delete(this)
    socket.off('data', this.#take).off('end', this.#end).off('close', this.#close)
    socket.pause()
    socket.unshift(rest)
    this.#toNode(socket)
    socket.off('error', ignore)
    if (since !== undefined) this.#lines.sockets.handOver(socket, since)
    socket.resume()
  }

  /** The peer sends no more. */
  #end = (): void => {
    const { reader, sockets } = this.#lines
    if (this.#kept !== undefined && reader.isCutOff(this.#kept.joined()))
      sockets.onBroken(cutOffError(), this.socket)
    else this.socket.end()
  }
  #close = (): void => {
    this.#isOpen = false
    this.#rest = undefined
    this.#forgetKept()
    this.#lines.all.delete(this)
    const sending = this.#sent === undefined ? undefined : this.#asked[0]
    this.#sent?.()
    for (const one of this.#asked) {
      if (one.answer?.parts !== undefined && one !== sending) this.#lines.state.ended()
      one.end()
    }
  }
}

const cutOffError = (): Error =>
  Object.assign(new Error('Parse Error'), { code: 'HPE_INVALID_EOF_STATE' })
