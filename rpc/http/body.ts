/**
 * Reads the body of an HTTP request. Bytes and pieces are bounded and charged on arrival, collected
 * in one buffer, and decoded once.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { overloaded, type Refusal, type RpcError, unacceptable } from '../core/errors.ts'
import { addPrepaid, NOTHING_PREPAID, type Prepaid } from '../core/prepaid.ts'
import { limiterKey } from '../limiter/address.ts'
import type { Charge, Limiter } from '../limiter/limiter.ts'
import { POINT_BYTES, POINT_PIECES } from '../limiter/points.ts'
import { stopReading } from '../sockets/closing.ts'
import { dropBody, stopParsing, takeBody } from './incoming.ts'
import type { Intake, Reservation } from './intake.ts'
import { LINGER_BYTES, type Linger, type LingerMode } from './linger.ts'

export type BodyLimits = { readonly bodyBytes: number; readonly bodyPieces: number }
export type BodyOptions = {
  readonly limits: BodyLimits
  readonly intake: Intake
  readonly limiter: Pick<Limiter, 'charge'>
  /**
   * Called when a body has too many pieces. At the second time the client is cut off for a while.
   */
  readonly strike: (socket: Socket) => void
}
export type Body = {
  readonly text: string
  /** Address of the client. */
  readonly address: string
  /** Points charged for the body on arrival. */
  readonly prepaid: Prepaid
}
/** Reason why the rest of a body is not read. */
export class BodyRefusal extends Error {
  override name = 'BodyRefusal'
  readonly statusCode: number
  /** Treatment of the bytes that still arrive. */
  readonly linger: LingerMode
  /** Error for the client, or the refusal of the rate limit. */
  readonly refusedWith: RpcError | Refusal

  constructor(statusCode: number, refusedWith: BodyRefusal['refusedWith'], linger: LingerMode) {
    super(refusedWith instanceof Error ? refusedWith.message : 'request rate limit exceeded')
    this.statusCode = statusCode
    this.linger = linger
    this.refusedWith = refusedWith
  }
}

/** Linger of a short body. */
const FREE_LINGER: Linger = { bytes: POINT_BYTES, charge: undefined }
const NO_LINGER: Linger = { bytes: 0, charge: undefined }

export interface Bodies {
  /**
   * Reads a body. Bytes that are not UTF-8 become U+FFFD. `done` is called once: with the body, a
   * refusal, or the error of a broken connection.
   * @param address address of the client
   */
  read(
    request: IncomingMessage,
    address: string,
    done: (error: Error | null, body?: Body) => void,
  ): void
}

/** Minimum average size of a piece, beyond the first `bodyPieces` pieces. */
export const PIECE_BYTES = 1_024
/** Initial size of the buffer for a body in several pieces. */
const FIRST_BYTES = 4_096

export function createBodies(options: BodyOptions): Bodies {
  return {
    read(request, address, done) {
      new Reading(request, address, { ...options, done }).start()
    },
  }
}

type ReadingOptions = BodyOptions & { readonly done: (error: Error | null, body?: Body) => void }

/** A body that is being read. */
class Reading {
  readonly #request: IncomingMessage
  readonly #address: string
  readonly #options: ReadingOptions
  readonly #declared: number | undefined
  #size = 0
  #pieces = 0
  /** The whole body if it came in one piece. This piece is not copied. */
  #single: Buffer | undefined
  #buffer: Buffer | undefined
  #reservation: Reservation | undefined
  #prepaid = NOTHING_PREPAID
  /** Points that became due during a pending charge. */
  #unrequested = 0
  /** Points of a pending charge. Later bytes are paid by the next charge. */
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
      const linger = isLong(this.#request) ? NO_LINGER : FREE_LINGER
      return new BodyRefusal(415, unacceptable(UNSUPPORTED_ENCODING), linger)
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
    if (this.#size === this.#declared && this.#pieces === 1) this.#single = piece
    else if (this.#hasCapacity(piece.length)) this.#buffer?.set(piece, this.#size - piece.length)
    else return noCapacity()
    return undefined
  }

  /**
   * Reserves memory for a piece. One growing buffer is used, because a list of small pieces takes a
   * hundred times their bytes.
   */
  #hasCapacity(length: number): boolean {
    const { intake, limits } = this.#options
    const before = this.#buffer?.length ?? 0
    if (this.#size <= before) return true
    const max = Math.min(this.#declared ?? limits.bodyBytes, limits.bodyBytes)
    const bytes = Math.max(this.#size, Math.min(max, Math.max(FIRST_BYTES, 2 * before)))
    this.#reservation ??= intake.open(limiterKey(this.#address), () => this.#cut())
    if (!this.#reservation.take(bytes - before)) return false
    const larger = Buffer.allocUnsafeSlow(bytes)
    // A broken connection must release its buffer. The usual body is a single piece and needs no
    // buffer.
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
    this.#reservation?.release()
    free(this.#buffer)
    this.#buffer = undefined
  }

  /** Gives up the buffer, because other clients need the memory. */
  #cut(): void {
    this.#release()
    if (!this.#isOver) this.#refuse(noCapacity())
  }

  /**
   * Returns the points due for the received or announced bytes. The first point is paid with the
   * request.
   */
  #due(): number {
    const bytes = Math.max(this.#size, this.#declared ?? 0)
    return Math.max(Math.ceil(bytes / POINT_BYTES), Math.ceil(this.#pieces / POINT_PIECES)) - 1
  }

  #pay(): void {
    const points = this.#due() - this.#prepaid.points
    if (points <= 0 || this.#isOver) return
    if (this.#paying > 0) {
      this.#unrequested = points - this.#paying
      return
    }
    const charge = this.#options.limiter.charge(this.#address, points)
    if (!(charge instanceof Promise)) {
      this.#judge(charge, points)
      return
    }
    this.#paying = points
    // Reading stops until the charge is decided, because unpaid bytes must not be read.
    const { socket } = this.#request
    stopReading(socket, () => this.#paying > 0)
    void charge.then((one) => {
      this.#paying = 0
      this.#unrequested = 0
      if (one.isAllowed && !this.#isOver) socket.resume()
      this.#judge(one, points)
      this.#pay()
      this.#finish()
    })
  }
  #judge(charge: Charge, points: number): void {
    if (charge.isAllowed) {
      this.#prepaid = addPrepaid(this.#prepaid, points)
      return
    }
    if (this.#isOver) return
    dropBody(this.#request, this.#take)
    // Points for bytes already read stay paid. A refusal by the announced length comes before any
    // byte is read.
    this.#end(new BodyRefusal(429, charge, 'unread'))
  }

  #finish(): void {
    if (!this.#hasEnded || this.#paying > 0 || this.#isOver) return
    const bytes = this.#single ?? this.#buffer?.subarray(0, this.#size)
    const text = bytes?.toString('utf8') ?? ''
    const due = this.#due()
    const prepaid = due <= 0 ? this.#prepaid : { ...this.#prepaid, min: due + 1 }
    this.#end(null, { text, address: this.#address, prepaid })
  }

  /**
   * Refuses a body for its form. The refusal pays for the bytes read; later bytes are paid on
   * arrival.
   */
  #refuse(refusal: BodyRefusal): void {
    this.#isOver = true
    dropBody(this.#request, this.#take)
    const isUnread = refusal.linger === NO_LINGER
    if (isUnread) stopParsing(this.#request.socket)
    this.#release()
    const { limiter, done } = this.#options
    // Charges complete in order, so all points paid for this body are known here.
    const judge = (charge: Charge) =>
      done(charge.isAllowed ? refusal : new BodyRefusal(429, charge, NO_LINGER))
    const points = (isUnread ? UNREAD_POINTS : 1) + this.#unrequested
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
 * Frees the memory of a buffer at once. A buffer that survives two minor collections would stay
 * until the next major one. V8 delays that until 64 MB of them have gathered (2026-11).
 */
const free = ({ buffer }: Buffer): void => void (buffer as ArrayBuffer).transfer(0)

/**
 * Tells whether a request with an unread body costs more than its headers. Each read of the socket
 * may bring thousands of pieces.
 */
export const isLong = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > POINT_BYTES

/**
 * Points for a request that is not read further. Its bytes and a new connection take up to 6 ms
 * (2026-11).
 */
export const UNREAD_POINTS = 4

/** Milliseconds after which a client may retry when too many bytes are being received. */
const BUSY_MS = 1_000
export const UNSUPPORTED_ENCODING = 'content encoding is not supported'

const noCapacity = (): BodyRefusal =>
  new BodyRefusal(503, overloaded('too many bytes are being received', BUSY_MS), 'unread')
const tooManyPieces = (limit: number): BodyRefusal =>
  new BodyRefusal(
    413,
    unacceptable(`body in too many pieces: at most ${limit}, and one more for each kilobyte`),
    NO_LINGER,
  )
