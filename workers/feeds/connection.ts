/** The connection of a feed: opened, watched, given up and opened again. It has no clock, socket or chance of its own. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { type Bucket, createBucket } from './bucket.ts'
import type { FeedLimits } from './limits.ts'
import type { FeedCount } from './messages.ts'
import type { FeedSocket, OpenSocket } from './socket.ts'

export type ConnectionLimits = Pick<
  FeedLimits,
  | 'frames'
  | 'floodRestMs'
  | 'connectMs'
  | 'pingMs'
  | 'pongMs'
  | 'silentMs'
  | 'leastRetryMs'
  | 'mostRetryMs'
  | 'goodRetryMs'
  | 'goodMs'
  | 'connects'
>
/** Calls `run` once in so many milliseconds; the result calls it off. */
export type Later = (ms: number, run: () => void) => () => void

export type ConnectionState = {
  readonly isConnected: boolean
  /** Nothing is lost between it and the connection before. */
  readonly isResumed?: boolean
}

export type ConnectionOptions = {
  readonly limits: ConnectionLimits
  readonly blockTimeMs: number
  readonly open: OpenSocket
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly later: Later
  /** [0, 1) */
  readonly random: () => number
  onFrame(packet: Bytes): void
  onTooLarge(): void
  onState(state: ConnectionState): void
  /** What waits of this connection is not worth a look. */
  onFlood(): void
  count(what: FeedCount, by: number): void
  /** `kind` is for sampling. */
  warn(kind: string, message: string): void
}

/** Canonical blocks without a frame that show that it is the feed that is silent, not the chain: one may be of the last frames. */
const MOVES = 2
/** Doubled so often, the shortest time between two connections is the longest. */
const MOST_DOUBLINGS = 10

export class FeedConnection {
  readonly #options: ConnectionOptions
  readonly #frames: Bucket
  readonly #connects: Bucket
  #socket: FeedSocket | undefined
  #isOpen = false
  #isStopped = false
  #isReading = true
  /** Connections in a row that brought nothing. */
  #failures = 0
  /** A frame of this connection was what it should be. */
  #isGood = false
  /** Until then the peer is expected back. */
  #expectedUntil = 0
  #callOff: () => void = () => {}
  #tickedAt = 0
  #bytesRead = 0
  #heardAt = 0
  #frameAt = 0
  /** Of the canonical head, since the newest frame. */
  #moves = 0

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#frames = createBucket(options.limits.frames, options.now)
    this.#connects = createBucket(options.limits.connects, options.now)
  }

  get isConnected(): boolean {
    return this.#isOpen
  }

  connect(): void {
    const { limits, open, later, count, onTooLarge } = this.#options
    count('connects', 1)
    const socket: FeedSocket = open({
      onOpen: (isResumed) => this.#isCurrent(socket) && this.#opened(socket, isResumed),
      onFrame: (packet) => this.#isCurrent(socket) && this.#received(packet),
      onControl: () => this.#isCurrent(socket) && this.#takeFrame(),
      onTooLarge: () => this.#isCurrent(socket) && onTooLarge(),
      onClose: (reason) => this.#isCurrent(socket) && this.#lose(reason),
    })
    this.#socket = socket
    this.#callOff = later(limits.connectMs, () =>
      this.#lose(`no connection within ${limits.connectMs} ms`),
    )
  }

  stop(): void {
    this.#isStopped = true
    this.#callOff()
    this.#socket?.end()
    this.#socket = undefined
    this.#isOpen = false
  }

  /** A frame was what it should be: the next connection may come soon. */
  decoded(): void {
    // A frame may be decoded after its connection is lost.
    if (this.#isOpen) this.#isGood = true
    else this.#expectBack()
    this.#failures = 0
  }

  /** Whether what comes is read. While it is not, nothing can be said of the peer. */
  read(isReading: boolean): void {
    if (isReading === this.#isReading) return
    this.#isReading = isReading
    if (!this.#isOpen) return
    if (isReading) {
      this.#hear()
      this.#socket?.resume()
    } else this.#socket?.pause()
  }

  canonicalMoved(atMs: number): void {
    if (atMs > this.#frameAt) this.#moves++
  }

  /** One that was given up may still have something to say. */
  #isCurrent(socket: FeedSocket): boolean {
    return socket === this.#socket
  }

  #opened(socket: FeedSocket, isResumed: boolean): void {
    this.#callOff()
    this.#isOpen = true
    this.#connects.take(1)
    this.#bytesRead = 0
    this.#hear()
    if (!this.#isReading) socket.pause()
    this.#options.onState({ isConnected: true, ...(isResumed ? { isResumed } : {}) })
    this.#tickLater()
  }

  #received(packet: Bytes): void {
    this.#sawFrame()
    if (this.#takeFrame()) this.#options.onFrame(packet)
  }

  /** False: that was one too many. */
  #takeFrame(): boolean {
    this.#frames.take(1)
    if (this.#frames.owedMs() === 0) return true
    const { count, limits, onFlood } = this.#options
    count('floods', 1)
    this.#lose(
      `more than ${limits.frames.perSecond} frames a second, closed for ${limits.floodRestMs / 1_000} s`,
      limits.floodRestMs,
    )
    onFlood()
    return false
  }

  #tickLater(): void {
    const { limits, now, later } = this.#options
    this.#tickedAt = now()
    this.#callOff = later(limits.pingMs, () => this.#tick())
  }

  #tick(): void {
    const lost = this.#whyLost()
    if (lost !== undefined) this.#lose(lost)
    else {
      this.#socket?.ping()
      this.#tickLater()
    }
  }

  #whyLost(): string | undefined {
    const { limits, now, count } = this.#options
    const time = now()
    const bytesRead = this.#socket?.bytesRead ?? 0
    // A thread that stood still has heard nothing, though it may have been said: it looks again at the next tick.
    const isLate = time - this.#tickedAt > 2 * limits.pingMs
    if (isLate || !this.#isReading) this.#hear()
    else if (bytesRead !== this.#bytesRead) this.#heardAt = time
    this.#bytesRead = bytesRead
    if (time - this.#heardAt > limits.pongMs) return `no answer to pings for ${limits.pongMs} ms`
    const silentMs = time - this.#frameAt
    if (this.#moves < MOVES || silentMs < this.#mostSilentMs) return undefined
    count('silences', 1)
    return `no frame for ${(silentMs / 1_000).toFixed(1)} s while the chain moves`
  }

  get #mostSilentMs(): number {
    return Math.max(this.#options.limits.silentMs, 3 * this.#options.blockTimeMs)
  }

  #hear(): void {
    this.#heardAt = this.#options.now()
    this.#sawFrame()
  }

  #sawFrame(): void {
    this.#frameAt = this.#options.now()
    this.#moves = 0
  }

  /** @param restMs longer than it would wait otherwise */
  #lose(reason: string, restMs = 0): void {
    if (this.#isStopped) return
    const { later, count, warn, onState } = this.#options
    const wasOpen = this.#isOpen
    if (this.#isGood) this.#expectBack()
    this.#isGood = false
    this.#callOff()
    const socket = this.#socket
    this.#socket = undefined
    this.#isOpen = false
    socket?.end()
    count('losses', 1)
    if (wasOpen) onState({ isConnected: false })
    const waitMs = Math.max(restMs, this.#retryMs())
    warn(wasOpen ? 'lost' : 'unreachable', `${wasOpen ? 'lost' : 'not connected'}: ${reason}`)
    this.#callOff = later(waitMs, () => this.connect())
  }

  #expectBack(): void {
    this.#expectedUntil = this.#options.now() + this.#options.limits.goodMs
  }

  #retryMs(): number {
    const { limits, random, now } = this.#options
    const doublings = Math.min(this.#failures++, MOST_DOUBLINGS)
    const longest = now() < this.#expectedUntil ? limits.goodRetryMs : limits.mostRetryMs
    const most = Math.min(limits.leastRetryMs * 2 ** doublings, longest)
    // A feed that ends each of its connections after a frame is not asked for one all the time.
    if (this.#connects.owedMs() > 0) return limits.mostRetryMs
    return most * (1 - random() / 2)
  }
}
