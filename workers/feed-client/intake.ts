/**
 * Passes frames of a feed to the writer, one at a time and in order.
 * The socket is not read while the writer lags or the feed exceeds its rates. The peer's system
 * then buffers the frames, or the peer notices a slow client. Frames are not dropped, because the
 * gaps would never be filled. The writer's mailbox skips old frames as soon as it is read.
 */
import type { DecodedPacket, Refused } from '../../engine/flashblocks/codec.ts'
import type { FeedMessage } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { JsonObject } from '../../engine/primitives/json-fields.ts'
import { type Bucket, createBucket } from './bucket.ts'
import type { ConnectionState, Later } from './connection.ts'
import type { Decoded } from './decode.ts'
import type { FeedLimits } from './limits.ts'
import type { FeedCount } from './messages.ts'

export type IntakeOptions = {
  readonly limits: Pick<
    FeedLimits,
    'wireBytes' | 'jsonBytes' | 'decodeMs' | 'heldFrames' | 'heldBytes'
  >
  readonly now: () => number
  readonly later: Later
  /** Resolves after one turn of the event loop. */
  readonly turn: () => Promise<unknown>
  decode(packet: Bytes): Promise<Decoded>
  /** Sends a frame to the writer. @returns bytes in memory */
  send(message: FeedMessage, packet: Bytes, receivedAtMs: number): number
  /**
   * Receives metadata of a message that was sent; the writer may execute the message without it.
   */
  onMetadata?(metadata: JsonObject): void
  /** Sends a change of the connection, or that a frame of an open one was lost. */
  sendState(state: ConnectionState): void
  refused(refused: Refused): void
  /** Turns reading the socket on or off. */
  read(isReading: boolean): void
  count(what: FeedCount, by: number): void
}

type Waiting = { readonly packet: Bytes; readonly receivedAtMs: number } | ConnectionState

export class Intake {
  readonly #options: IntakeOptions
  readonly #wire: Bucket
  readonly #json: Bucket
  readonly #decode: Bucket
  /**
   * Bounded by one chunk of the socket and a burst of frames, because nothing is read while entries
   * wait.
   */
  #waiting: Waiting[] = []
  #isBusy = false
  /**
   * Frames were refused, and may have been flashblocks. The writer learns it with the next frame,
   * so a feed of refused frames alone gives it no work.
   */
  #hasLost = false
  #buffered = { frames: 0, bytes: 0 }
  #onTaken: (() => void) | undefined

  constructor(options: IntakeOptions) {
    this.#options = options
    this.#wire = createBucket(options.limits.wireBytes, options.now)
    this.#json = createBucket(options.limits.jsonBytes, options.now)
    this.#decode = createBucket(options.limits.decodeMs, options.now)
  }

  /** Frames, and their bytes, that the writer has yet to take. */
  get buffered(): { readonly frames: number; readonly bytes: number } {
    return this.#buffered
  }

  frame(packet: Bytes): Promise<void> {
    return this.#push({ packet, receivedAtMs: this.#options.now() })
  }

  state(state: ConnectionState): Promise<void> {
    return this.#push(state)
  }

  /** The writer has taken this many frames and bytes. */
  taken(frames: number, bytes: number): void {
    this.#buffered = { frames: this.#buffered.frames - frames, bytes: this.#buffered.bytes - bytes }
    this.#onTaken?.()
  }

  /** Drops waiting frames; states of the connection are retained. */
  drop(): void {
    const retained = this.#waiting.filter((one) => 'isConnected' in one)
    this.#options.count('dropped', this.#waiting.length - retained.length)
    this.#waiting = retained
  }

  /** Rejects only after a bug of the decoder or of the thread's ports. */
  async #push(one: Waiting): Promise<void> {
    this.#append(one)
    if (this.#isBusy) return this.#options.read(false)
    this.#isBusy = true
    const { turn, read } = this.#options
    while (this.#waiting.length > 0) {
      await this.#capacity()
      const next = this.#waiting.shift()
      // `drop` may have emptied the list meanwhile.
      if (next === undefined) break
      if ('isConnected' in next) this.#options.sendState(next)
      else await this.#take(next.packet, next.receivedAtMs)
      if (this.#waiting.length > 0) await turn()
    }
    this.#isBusy = false
    read(true)
  }

  /**
   * Only the last two states are retained if a connection opens and closes while the writer lags.
   */
  #append(one: Waiting): void {
    const [before, last] = this.#waiting.slice(-2)
    const isSaid = (said: Waiting | undefined) => said !== undefined && 'isConnected' in said
    if (isSaid(one) && isSaid(last) && isSaid(before)) this.#waiting.pop()
    else this.#waiting.push(one)
  }

  async #take(packet: Bytes, receivedAtMs: number): Promise<void> {
    const { now, decode, count } = this.#options
    const startedAt = now()
    const { decoded, jsonBytes } = await decode(packet)
    const ms = now() - startedAt
    this.#wire.take(packet.length)
    this.#json.take(jsonBytes)
    this.#decode.take(ms)
    count('wire_bytes', packet.length)
    count('json_bytes', jsonBytes)
    count('decode_ms', ms)
    this.#deliver(decoded, packet, receivedAtMs)
  }

  #deliver(decoded: DecodedPacket, packet: Bytes, receivedAtMs: number): void {
    const { send, sendState, refused, count } = this.#options
    if ('refuse' in decoded) {
      refused(decoded)
      this.#hasLost = true
    } else if ('ignore' in decoded) count('foreign', 1)
    else {
      if (this.#hasLost) sendState({ isConnected: true })
      this.#hasLost = false
      const bytes = send(decoded.message, packet, receivedAtMs)
      this.#buffered = { frames: this.#buffered.frames + 1, bytes: this.#buffered.bytes + bytes }
      count('frames', 1)
      if (decoded.metadata !== undefined) this.#options.onMetadata?.(decoded.metadata)
    }
  }

  /** Resolves when the writer has taken enough frames, and the rates allow the next one. */
  async #capacity(): Promise<void> {
    const { now, later, read, count } = this.#options
    if (this.#hasCapacity && this.#owedMs === 0) return
    const since = now()
    read(false)
    while (!this.#hasCapacity)
      await new Promise<void>((resolve) => {
        this.#onTaken = resolve
      })
    this.#onTaken = undefined
    for (let owed = this.#owedMs; owed > 0; owed = this.#owedMs)
      await new Promise<void>((resolve) => void later(owed, resolve))
    count('unread_ms', now() - since)
  }

  get #hasCapacity(): boolean {
    const { heldFrames, heldBytes } = this.#options.limits
    return this.#buffered.frames < heldFrames && this.#buffered.bytes < heldBytes
  }

  get #owedMs(): number {
    return Math.max(this.#wire.owedMs(), this.#json.owedMs(), this.#decode.owedMs())
  }
}
