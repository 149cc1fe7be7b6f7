/** The body of an HTTP request: charged for and bounded, in bytes and in pieces, while it comes in; collected in one buffer, decoded once. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Charge, Limiter } from '../limiter/limiter.ts'
import { POINT_BYTES, POINT_PIECES } from '../limiter/points.ts'
import { limiterKey } from '../seam/address.ts'
import { overloaded, type Refusal, type RpcError, unacceptable } from '../seam/errors.ts'
import { type Paid, paidMore, UNPAID } from '../seam/paid.ts'
import { stopReading } from '../sockets/closing.ts'
import { dropBody, stopParsing, takeBody } from './incoming.ts'
import type { Held, Intake } from './intake.ts'
import { LINGER_BYTES, type Linger, type Rest } from './linger.ts'

export type BodyLimits = { readonly bodyBytes: number; readonly bodyPieces: number }
export type BodyOptions = {
  readonly limits: BodyLimits
  readonly intake: Intake
  readonly limiter: Pick<Limiter, 'charge'>
  /** A body came in too many pieces; the second time its client is not to be heard for a while. */
  readonly strike: (socket: Socket) => void
}
export type Body = {
  readonly text: string
  /** Of the client that sent it. */
  readonly address: string
  /** What was charged for it already. */
  readonly paid: Paid
}
/** Why a body is not read, or not any further. */
export class BodyRefusal extends Error {
  override name = 'BodyRefusal'
  readonly statusCode: number
  /** What becomes of what is still being sent. */
  readonly rest: Rest
  /** What the client is told: an error, or that it was over its rate. */
  readonly says: RpcError | Refusal

  constructor(statusCode: number, says: BodyRefusal['says'], rest: Rest) {
    super(says instanceof Error ? says.message : 'request rate limit exceeded')
    this.statusCode = statusCode
    this.rest = rest
    this.says = says
  }
}

/** Of what is not long. */
const FREE_LINGER: Linger = { bytes: POINT_BYTES, charge: undefined }
const NO_LINGER: Linger = { bytes: 0, charge: undefined }

export interface Bodies {
  /**
   * Bytes that are no UTF-8 become U+FFFD. `done` once: with the body, with a refusal, or with the error of a connection that broke.
   * @param address of the client
   */
  read(
    request: IncomingMessage,
    address: string,
    done: (error: Error | null, body?: Body) => void,
  ): void
}

/** Each piece of a body may be as small as this on average, beside the first ones. */
export const PIECE_BYTES = 1_024
/** Where a body begins that does not come in one piece. */
const FIRST_BYTES = 4_096

export function createBodies(options: BodyOptions): Bodies {
  return {
    read(request, address, done) {
      new Reading(request, address, { ...options, done }).start()
    },
  }
}

type ReadingOptions = BodyOptions & { readonly done: (error: Error | null, body?: Body) => void }

/** One body on its way in. */
class Reading {
  readonly #request: IncomingMessage
  readonly #address: string
  readonly #options: ReadingOptions
  readonly #declared: number | undefined
  #size = 0
  #pieces = 0
  /** All of it, where it came in one piece; then nothing was copied. */
  #whole: Buffer | undefined
  #buffer: Buffer | undefined
  #held: Held | undefined
  #paid = UNPAID
  /** Points that have become due behind a charge that was not answered. */
  #unasked = 0
  /** Points of a charge that was not answered yet: what comes meanwhile is paid after it. */
  #paying = 0
  #hasEnded = false
  #isOver = false

  constructor(request: IncomingMessage, address: string, options: ReadingOptions) {
    this.#request = request
    this.#address = address
    this.#options = options
    const declared = request.headers['content-length']
    this.#declared = declared === undefined ? undefined : Number(declared)
  }

  start(): void {
    const fault = this.#faultOfHead()
    if (fault !== undefined) {
      this.#refuse(fault)
      return
    }
    this.#pay()
    takeBody(this.#request, this.#take)
    this.#request.on('error', this.#fail)
  }

  #faultOfHead(): BodyRefusal | undefined {
    const { bodyBytes } = this.#options.limits
    const { 'content-encoding': encoding = 'identity' } = this.#request.headers
    if (encoding !== 'identity') {
      const rest = isLong(this.#request) ? NO_LINGER : FREE_LINGER
      return new BodyRefusal(415, unacceptable(UNSUPPORTED_ENCODING), rest)
    }
    const declared = this.#declared ?? 0
    if (declared <= bodyBytes) return undefined
    return this.#tooLarge(declared, Math.min(declared, LINGER_BYTES))
  }

  #fail = (error: Error): void => this.#end(error)
  #take = (piece: Buffer | null): void => {
    if (this.#isOver) return
    if (piece === null) {
      this.#hasEnded = true
      this.#finish()
      return
    }
    this.#size += piece.length
    this.#pieces++
    const fault = this.#fault() ?? this.#put(piece)
    if (fault === undefined) this.#pay()
    else this.#refuse(fault)
  }

  #fault(): BodyRefusal | undefined {
    const { bodyBytes, bodyPieces } = this.#options.limits
    if (this.#size > bodyBytes) return this.#tooLarge(this.#size, LINGER_BYTES)
    const isShattered = this.#pieces > bodyPieces + this.#size / PIECE_BYTES
    if (!isShattered) return undefined
    this.#options.strike(this.#request.socket)
    return tooManyPieces(bodyPieces)
  }

  #tooLarge(size: number, lingerBytes: number): BodyRefusal {
    const { limits, limiter } = this.#options
    const charge = (points: number) => limiter.charge(this.#address, points)
    const text = `content length too large (${size}>${limits.bodyBytes})`
    return new BodyRefusal(413, unacceptable(text), { bytes: lingerBytes, charge })
  }

  #put(piece: Buffer): BodyRefusal | undefined {
    if (this.#size === this.#declared && this.#pieces === 1) this.#whole = piece
    else if (this.#hasRoom(piece.length)) this.#buffer?.set(piece, this.#size - piece.length)
    else return noRoom()
    return undefined
  }

  /** One buffer that grows, for a list of small pieces takes a hundred times their bytes. */
  #hasRoom(length: number): boolean {
    const { intake, limits } = this.#options
    const before = this.#buffer?.length ?? 0
    if (this.#size <= before) return true
    const most = Math.min(this.#declared ?? limits.bodyBytes, limits.bodyBytes)
    const bytes = Math.max(this.#size, Math.min(most, Math.max(FIRST_BYTES, 2 * before)))
    this.#held ??= intake.open(limiterKey(this.#address), () => this.#cut())
    if (!this.#held.take(bytes - before)) return false
    const larger = Buffer.allocUnsafeSlow(bytes)
    // A connection that breaks gives back what it had; the usual body never comes here.
    if (this.#buffer === undefined) this.#request.once('close', () => this.#release())
    else {
      larger.set(this.#buffer.subarray(0, this.#size - length))
      free(this.#buffer)
    }
    this.#buffer = larger
    return true
  }
  #release(): void {
    if (this.#buffer === undefined) return
    this.#held?.release()
    free(this.#buffer)
    this.#buffer = undefined
  }

  /** Others need the room more. */
  #cut(): void {
    this.#release()
    if (!this.#isOver) this.#refuse(noRoom())
  }

  /** What is here, or was announced; the first point is paid when the request is answered. */
  #due(): number {
    const bytes = Math.max(this.#size, this.#declared ?? 0)
    return Math.max(Math.ceil(bytes / POINT_BYTES), Math.ceil(this.#pieces / POINT_PIECES)) - 1
  }

  #pay(): void {
    const points = this.#due() - this.#paid.points
    if (points <= 0 || this.#isOver) return
    if (this.#paying > 0) {
      this.#unasked = points - this.#paying
      return
    }
    const charge = this.#options.limiter.charge(this.#address, points)
    if (!(charge instanceof Promise)) {
      this.#judge(charge, points)
      return
    }
    this.#paying = points
    // What cannot be paid is not read, and whether it can is not known yet.
    const { socket } = this.#request
    stopReading(socket, () => this.#paying > 0)
    void charge.then((one) => {
      this.#paying = 0
      this.#unasked = 0
      if (one.isAllowed && !this.#isOver) socket.resume()
      this.#judge(one, points)
      this.#pay()
      this.#finish()
    })
  }
  #judge(charge: Charge, points: number): void {
    if (charge.isAllowed) {
      this.#paid = paidMore(this.#paid, points)
      return
    }
    if (this.#isOver) return
    dropBody(this.#request, this.#take)
    // By its announced length before any of it is read, which costs nothing, or in its middle: what was read stays paid.
    this.#end(new BodyRefusal(429, charge, 'unread'))
  }

  #finish(): void {
    if (!this.#hasEnded || this.#paying > 0 || this.#isOver) return
    const bytes = this.#whole ?? this.#buffer?.subarray(0, this.#size)
    const text = bytes?.toString('utf8') ?? ''
    const due = this.#due()
    const paid = due <= 0 ? this.#paid : { ...this.#paid, least: due + 1 }
    this.#end(null, { text, address: this.#address, paid })
  }

  /** For its form: it pays for what was read; for what will be thrown away when that comes. */
  #refuse(refusal: BodyRefusal): void {
    this.#isOver = true
    dropBody(this.#request, this.#take)
    const isUnread = refusal.rest === NO_LINGER
    if (isUnread) stopParsing(this.#request.socket)
    this.#release()
    const { limiter, done } = this.#options
    // Charges are answered in their order: all that was paid for this body is known by then.
    const judge = (charge: Charge) =>
      done(charge.isAllowed ? refusal : new BodyRefusal(429, charge, NO_LINGER))
    const points = (isUnread ? UNREAD_POINTS : 1) + this.#unasked
    const charge = limiter.charge(this.#address, points)
    if (charge instanceof Promise) void charge.then(judge)
    else judge(charge)
  }

  #end(error: Error | null, body?: Body): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#release()
    this.#options.done(error, body)
  }
}

/**
 * Gives the memory of a buffer back at once: one that lived for two collections of young garbage would keep it until the next large
 * collection, for which V8 waits until 64 MB of them have gathered (2026-11).
 */
const free = ({ buffer }: Buffer): void => void (buffer as ArrayBuffer).transfer(0)

/** Whether a request whose body is not read costs more than its headers: each read of the socket may bring thousands of pieces. */
export const isLong = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > POINT_BYTES

/** For whom reading is given up: what came with it, and a connection that is made anew, take up to 6 ms (2026-11). */
export const UNREAD_POINTS = 4

/** Until bytes that are being received make room. */
const BUSY_MS = 1_000
export const UNSUPPORTED_ENCODING = 'content encoding is not supported'

const noRoom = (): BodyRefusal =>
  new BodyRefusal(503, overloaded('too many bytes are being received', BUSY_MS), 'unread')
const tooManyPieces = (limit: number): BodyRefusal =>
  new BodyRefusal(
    413,
    unacceptable(`content in too many pieces (${limit}, and one for each kilobyte)`),
    NO_LINGER,
  )
