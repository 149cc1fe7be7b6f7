/**
 * State machine of a feed's connection: opens, monitors, closes and reopens it. Clock, socket and
 * randomness are parameters.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { type Bucket, createBucket } from './bucket.ts'
import type { FeedLimits } from './limits.ts'
import type { FeedCount } from './messages.ts'
import type { FeedSocket, OpenSocket } from './socket.ts'

export type ConnectionLimits = Pick<
  FeedLimits,
  | 'frames'
  | 'floodBackoffMs'
  | 'connectMs'
  | 'pingMs'
  | 'pongMs'
  | 'silentMs'
  | 'minRetryMs'
  | 'maxRetryMs'
  | 'goodRetryMs'
  | 'goodMs'
  | 'connects'
>
/** Calls `run` once after this many milliseconds; the returned function cancels the call. */
export type Later = (ms: number, run: () => void) => () => void

export type ConnectionState = {
  readonly isConnected: boolean
  /** The connection continues where the previous one ended, without a gap. */
  readonly isResumed?: boolean
}

export type ConnectionOptions = {
  readonly limits: ConnectionLimits
  readonly blockTimeMs: number
  readonly open: OpenSocket
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly later: Later
  /** A number in [0, 1). */
  readonly random: () => number
  onFrame(packet: Bytes): void
  onTooLarge(): void
  onState(state: ConnectionState): void
  /** Frames of this connection that still wait should be dropped. */
  onFlood(): void
  count(what: FeedCount, by: number): void
  /** `kind` groups messages for sampling. */
  warn(kind: string, message: string): void
}

/**
 * A feed counts as silent after this many canonical blocks without a frame. One is too few, because
 * its frames may have been the last ones.
 */
const MOVES = 2
/** Maximum exponent of the backoff, after which the longest backoff always applies. */
const MAX_DOUBLINGS = 10

export class FeedConnection {
  readonly #options: ConnectionOptions
  readonly #frames: Bucket
  readonly #connects: Bucket
  #socket: FeedSocket | undefined
  #isOpen = false
  #isStopped = false
  #isReading = true
  /** Number of successive connections without a valid frame. */
  #failures = 0
  /** This connection has brought a valid frame. */
  #isGood = false
  /** Until this time the shorter maximum backoff applies. */
  #expectedUntil = 0
  #callOff: () => void = () => {}
  #tickedAt = 0
  #bytesRead = 0
  #receivedAt = 0
  #frameAt = 0
  /** Number of canonical heads since the newest frame. */
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

  /** A frame was valid, so the next connection may come soon. */
  decoded(): void {
    // A frame may be decoded after the loss of its connection.
    if (this.#isOpen) this.#isGood = true
    else this.#expectBack()
    this.#failures = 0
  }

  /** Turns reading on or off. Silence of the peer counts only while its socket is read. */
  read(isReading: boolean): void {
    if (isReading === this.#isReading) return
    this.#isReading = isReading
    if (!this.#isOpen) return
    if (isReading) {
      this.#noteTraffic()
      this.#socket?.resume()
    } else this.#socket?.pause()
  }

  canonicalMoved(atMs: number): void {
    if (atMs > this.#frameAt) this.#moves++
  }

  /** A closed socket may still emit events. */
  #isCurrent(socket: FeedSocket): boolean {
    return socket === this.#socket
  }

  #opened(socket: FeedSocket, isResumed: boolean): void {
    this.#callOff()
    this.#isOpen = true
    this.#connects.take(1)
    this.#bytesRead = 0
    this.#noteTraffic()
    if (!this.#isReading) socket.pause()
    this.#options.onState({ isConnected: true, ...(isResumed ? { isResumed } : {}) })
    this.#tickLater()
  }

  #received(packet: Bytes): void {
    this.#sawFrame()
    if (this.#takeFrame()) this.#options.onFrame(packet)
  }

  /** Returns false if the frame exceeds the rate; the connection is then closed. */
  #takeFrame(): boolean {
    this.#frames.take(1)
    if (this.#frames.owedMs() === 0) return true
    const { count, limits, onFlood } = this.#options
    count('floods', 1)
    this.#lose(
      `more than ${limits.frames.perSecond} frames a second, closed for ${limits.floodBackoffMs / 1_000} s`,
      limits.floodBackoffMs,
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
    // A thread that was blocked may have missed traffic, so it waits for the next tick.
    const isLate = time - this.#tickedAt > 2 * limits.pingMs
    if (isLate || !this.#isReading) this.#noteTraffic()
    else if (bytesRead !== this.#bytesRead) this.#receivedAt = time
    this.#bytesRead = bytesRead
    if (time - this.#receivedAt > limits.pongMs) return `no answer to pings for ${limits.pongMs} ms`
    const silentMs = time - this.#frameAt
    if (this.#moves < MOVES || silentMs < this.#maxSilentMs) return undefined
    count('silences', 1)
    return `no frame for ${(silentMs / 1_000).toFixed(1)} s while the chain advances`
  }

  get #maxSilentMs(): number {
    return Math.max(this.#options.limits.silentMs, 3 * this.#options.blockTimeMs)
  }

  #noteTraffic(): void {
    this.#receivedAt = this.#options.now()
    this.#sawFrame()
  }

  #sawFrame(): void {
    this.#frameAt = this.#options.now()
    this.#moves = 0
  }

  /** @param backoffMs minimum time until the next connection */
  #lose(reason: string, backoffMs = 0): void {
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
    const waitMs = Math.max(backoffMs, this.#retryMs())
    warn(wasOpen ? 'lost' : 'unreachable', `${wasOpen ? 'lost' : 'not connected'}: ${reason}`)
    this.#callOff = later(waitMs, () => this.connect())
  }

  #expectBack(): void {
    this.#expectedUntil = this.#options.now() + this.#options.limits.goodMs
  }

  #retryMs(): number {
    const { limits, random, now } = this.#options
    const doublings = Math.min(this.#failures++, MAX_DOUBLINGS)
    const longest = now() < this.#expectedUntil ? limits.goodRetryMs : limits.maxRetryMs
    const max = Math.min(limits.minRetryMs * 2 ** doublings, longest)
    // A feed that closes each connection after one frame gets the longest backoff.
    if (this.#connects.owedMs() > 0) return limits.maxRetryMs
    return max * (1 - random() / 2)
  }
}
