/**
 * Frames of a feed on their way to the writer, one at a time and in their order. What the writer does not take, and what goes beyond the
 * feed's budgets of a second, is not read from the socket: the peer's system keeps it, or the peer says that we are slow. Dropping would
 * make gaps that nobody fills, and the writer's mailbox skips what is old as soon as it looks.
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
  /** Resolves when the event loop has looked at everything else once. */
  readonly turn: () => Promise<unknown>
  decode(packet: Bytes): Promise<Decoded>
  /** Gives the bytes that it has in memory. */
  send(message: FeedMessage, packet: Bytes, receivedAtMs: number): number
  /** Came beside a message that was sent, which may be executed without it. */
  onMetadata?(metadata: JsonObject): void
  sendState(state: ConnectionState): void
  refused(refused: Refused): void
  /** Whether the socket is to be read. */
  read(isReading: boolean): void
  count(what: FeedCount, by: number): void
}

type Waiting = { readonly packet: Bytes; readonly receivedAtMs: number } | ConnectionState

export class Intake {
  readonly #options: IntakeOptions
  readonly #wire: Bucket
  readonly #json: Bucket
  readonly #decode: Bucket
  /** Not more than a chunk of the socket has, and of frames not more than a burst: it is not read while anything waits. */
  #waiting: Waiting[] = []
  #isBusy = false
  #held = { frames: 0, bytes: 0 }
  #onTaken: (() => void) | undefined

  constructor(options: IntakeOptions) {
    this.#options = options
    this.#wire = createBucket(options.limits.wireBytes, options.now)
    this.#json = createBucket(options.limits.jsonBytes, options.now)
    this.#decode = createBucket(options.limits.decodeMs, options.now)
  }

  /** On their way to the writer. */
  get held(): { readonly frames: number; readonly bytes: number } {
    return this.#held
  }

  frame(packet: Bytes): Promise<void> {
    return this.#push({ packet, receivedAtMs: this.#options.now() })
  }

  state(state: ConnectionState): Promise<void> {
    return this.#push(state)
  }

  /** The writer has taken so much. */
  taken(frames: number, bytes: number): void {
    this.#held = { frames: this.#held.frames - frames, bytes: this.#held.bytes - bytes }
    this.#onTaken?.()
  }

  /** What waits, but for what has to be said of the connection. */
  drop(): void {
    const kept = this.#waiting.filter((one) => 'isConnected' in one)
    this.#options.count('dropped', this.#waiting.length - kept.length)
    this.#waiting = kept
  }

  /** Rejects only with a bug: of the decoder, or of the thread's ports. */
  async #push(one: Waiting): Promise<void> {
    this.#append(one)
    if (this.#isBusy) return this.#options.read(false)
    this.#isBusy = true
    const { turn, read } = this.#options
    while (this.#waiting.length > 0) {
      await this.#room()
      const next = this.#waiting.shift()
      // Dropped meanwhile.
      if (next === undefined) break
      if ('isConnected' in next) this.#options.sendState(next)
      else await this.#take(next.packet, next.receivedAtMs)
      if (this.#waiting.length > 0) await turn()
    }
    this.#isBusy = false
    read(true)
  }

  /** Of a connection that comes and goes while the writer takes nothing, the last of each is enough. */
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
    const { send, refused, count } = this.#options
    if ('refuse' in decoded) refused(decoded)
    else if ('ignore' in decoded) count('foreign', 1)
    else {
      const bytes = send(decoded.message, packet, receivedAtMs)
      this.#held = { frames: this.#held.frames + 1, bytes: this.#held.bytes + bytes }
      count('frames', 1)
      if (decoded.metadata !== undefined) this.#options.onMetadata?.(decoded.metadata)
    }
  }

  /** Resolves when the writer has taken enough, and nothing is owed. */
  async #room(): Promise<void> {
    const { now, later, read, count } = this.#options
    if (this.#hasRoom && this.#owedMs === 0) return
    const since = now()
    read(false)
    while (!this.#hasRoom)
      await new Promise<void>((resolve) => {
        this.#onTaken = resolve
      })
    this.#onTaken = undefined
    for (let owed = this.#owedMs; owed > 0; owed = this.#owedMs)
      await new Promise<void>((resolve) => void later(owed, resolve))
    count('unread_ms', now() - since)
  }

  get #hasRoom(): boolean {
    const { heldFrames, heldBytes } = this.#options.limits
    return this.#held.frames < heldFrames && this.#held.bytes < heldBytes
  }

  get #owedMs(): number {
    return Math.max(this.#wire.owedMs(), this.#json.owedMs(), this.#decode.owedMs())
  }
}
