/**
 * Messages of one WebSocket, in order. A large one is sent in fragments, in turns with the large
 * responses of other connections (`outgoing.ts`). Later messages wait, because fragments of one
 * message must be adjacent (RFC 6455, 5.4).
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Message } from '../core/client.ts'
import type { Part } from '../core/exchange.ts'
import { textFrames } from '../wire/frames.ts'
import type { Outgoing, Taker } from './outgoing.ts'
import type { Unsent } from './unsent.ts'

/** Frames of one connection, which the queue writes to. */
export interface WebSocketFrames {
  readonly isOpen: boolean
  /** Bytes that the network has not taken. */
  readonly bufferedBytes: number
  /**
   * Sends a whole message. `done` is called when the network has taken the message, or never will.
   */
  send(data: string | Bytes, done?: () => void): void
  /** Sends whole messages, encoded as frames, in one write. */
  sendFrames(frames: Bytes, done: () => void): void
  /** Calls `go` when the network has taken nearly all bytes. */
  onceTaken(go: () => void): void
  /** Sends a fragment of a text message. */
  sendFragment(part: Part, isLast: boolean, done?: () => void): void
  /** Ends the connection without a close frame. */
  cut(): void
}
export type QueueBounds = {
  /** Maximum waiting bytes at which another message is accepted. */
  readonly queueBytes: number
  /** Maximum waiting bytes of messages in parts, without the one being sent. */
  readonly responsesBytes: number
  /** Bytes of unread responses above which no further message is answered. */
  readonly unreadBytes: number
}
export interface MessageQueue {
  readonly waitingBytes: number
  /** Sends a message. False: too many bytes wait already. */
  send(data: string | Bytes): boolean
  /** Sends many text messages in one write. False: too many bytes wait already. */
  sendAll(messages: readonly Message[]): boolean
  /** Sends the response to a message. False: too many bytes wait already. */
  respond(text: string): boolean
  /** Too many responses are unread, so no further message may be answered. */
  readonly isUnread: boolean
  /** Sends a response in parts. `done` is called when the response is sent, or never will be. */
  sendParts(parts: readonly Part[], done: () => void): boolean
  /**
   * Stops sending and drops waiting messages. `close` runs after the network has taken earlier
   * bytes, so that the close frame arrives.
   */
  leave(close: () => void): void
  /** Handles the end of the connection. */
  end(): void
}

/** Bytes of a message from which its client must read it in time. */
const TIMED_BYTES = 65_536

type Waiting =
  | { readonly data: string | Bytes; readonly sent: (() => void) | undefined }
  | { readonly frames: Bytes }
  | { readonly parts: readonly Part[]; readonly bytes: number; readonly done: () => void }

type QueueOptions = {
  readonly frames: WebSocketFrames
  readonly outgoing: Outgoing
  readonly unsent: Unsent
  readonly bounds: QueueBounds
  readonly onBug: (error: unknown) => void
  readonly onUnread: (isUnread: boolean) => void
}
export const createMessageQueue = (options: QueueOptions): MessageQueue => new Messages(options)

class Messages implements MessageQueue {
  readonly #options: QueueOptions
  readonly #waiting: Waiting[] = []
  /** Waiting bytes of messages, and of responses in parts. */
  #messageBytes = 0
  #responseBytes = 0
  /** Bytes of responses that the network has not taken. */
  #respondedBytes = 0
  #isUnread = false
  /** Ends the message whose fragments are being sent. */
  #finish: (() => void) | undefined
  #hasLeft = false
  #forgetLeft: (() => void) | undefined

  constructor(options: QueueOptions) {
    this.#options = options
  }

  get waitingBytes(): number {
    return this.#options.frames.bufferedBytes + this.#messageBytes
  }
  get isUnread(): boolean {
    return this.#isUnread
  }

  send(data: string | Bytes): boolean {
    // The check ignores the new message, so a single long message always passes.
    if (this.#isFull()) return false
    this.#put(data)
    return true
  }

  sendAll(messages: readonly Message[]): boolean {
    if (this.#isFull()) return false
    const frames = textFrames(messages)
    if (this.#finish === undefined) this.#sendFrames(frames)
    else {
      this.#messageBytes += frames.length
      this.#waiting.push({ frames })
    }
    return true
  }

  respond(text: string): boolean {
    const { bounds, unsent, frames } = this.#options
    if (this.#isFull()) return false
    let isTaken = false
    let forget: (() => void) | undefined
    this.#respondedBytes += text.length
    this.#put(text, () => {
      isTaken = true
      forget?.()
      this.#taken(text.length)
    })
    // Usually the system has taken the response by now. The client's read time is limited only for
    // many unread bytes.
    if (isTaken || this.waitingBytes === 0) return true
    if (text.length >= TIMED_BYTES || this.#respondedBytes > bounds.unreadBytes)
      forget = unsent.add(text.length, frames.cut)
    if (this.waitingBytes > bounds.unreadBytes) this.#check()
    return true
  }

  sendParts(parts: readonly Part[], over: () => void): boolean {
    const { bounds, unsent, frames } = this.#options
    if (this.#responseBytes > bounds.responsesBytes) return false
    const bytes = parts.reduce((sum, { length }) => sum + length, 0)
    const forget = unsent.add(bytes, frames.cut)
    const done = () => {
      forget()
      this.#taken(bytes)
      over()
    }
    this.#respondedBytes += bytes
    this.#check()
    if (this.#finish === undefined) this.#start(parts, done)
    else {
      this.#responseBytes += bytes
      this.#waiting.push({ parts, bytes, done })
    }
    return true
  }

  leave(close: () => void): void {
    const { frames, unsent } = this.#options
    this.#hasLeft = true
    this.end()
    this.#forgetLeft = unsent.add(frames.bufferedBytes, frames.cut)
    frames.onceTaken(() => {
      this.#forgetLeft?.()
      close()
    })
  }

  end(): void {
    this.#forgetLeft?.()
    this.#finish?.()
    for (const one of this.#waiting.splice(0))
      if ('done' in one) one.done()
      else if ('data' in one) one.sent?.()
  }

  #isFull(): boolean {
    return this.waitingBytes > this.#options.bounds.queueBytes
  }

  #check(): void {
    const isNow = this.#respondedBytes > this.#options.bounds.unreadBytes
    if (isNow === this.#isUnread) return
    this.#isUnread = isNow
    this.#options.onUnread(isNow)
  }
  #taken(bytes: number): void {
    this.#respondedBytes -= bytes
    if (this.#isUnread) this.#check()
  }

  #put(data: string | Bytes, sent?: () => void): void {
    if (this.#finish === undefined) {
      this.#sendMessage(data, sent)
      return
    }
    this.#messageBytes += data.length
    this.#waiting.push({ data, sent })
  }
  #sendMessage(data: string | Bytes, sent: (() => void) | undefined): void {
    const { frames, unsent } = this.#options
    if (sent !== undefined || data.length < TIMED_BYTES) frames.send(data, sent)
    else frames.send(data, unsent.add(data.length, frames.cut))
  }

  #sendFrames(data: Bytes): void {
    const { frames, unsent } = this.#options
    let forget: (() => void) | undefined
    let isTaken = false
    frames.sendFrames(data, () => {
      isTaken = true
      forget?.()
    })
    // Bytes that the system did not take at once count as unsent.
    if (!isTaken && frames.bufferedBytes > 0) forget = unsent.add(data.length, frames.cut)
  }

  #start(parts: readonly Part[], done: () => void): void {
    const { outgoing, frames, onBug } = this.#options
    this.#finish = () => {
      this.#finish = undefined
      done()
    }
    const isGone = () => this.#hasLeft || !frames.isOpen
    const taker = takerOf(frames, isGone, () => this.#next())
    outgoing.send(parts, taker, onBug)
  }

  /** Ends a large message and sends the waiting ones, up to the next large message. */
  #next(): void {
    this.#finish?.()
    while (this.#finish === undefined) {
      const first = this.#waiting.shift()
      if (first === undefined) return
      if ('data' in first) {
        this.#messageBytes -= first.data.length
        this.#sendMessage(first.data, first.sent)
      } else if ('frames' in first) {
        this.#messageBytes -= first.frames.length
        this.#sendFrames(first.frames)
      } else {
        this.#responseBytes -= first.bytes
        this.#start(first.parts, first.done)
      }
    }
  }
}

function takerOf(frames: WebSocketFrames, isGone: () => boolean, onEnd: () => void): Taker {
  let onDrained: (() => void) | undefined
  return {
    get isGone() {
      return isGone()
    },
    write(part) {
      frames.sendFragment(part, false, () => {
        const go = onDrained
        onDrained = undefined
        go?.()
      })
      return frames.bufferedBytes === 0
    },
    onceDrained(go) {
      onDrained = go
    },
    end() {
      frames.sendFragment('', true)
      onEnd()
    },
    destroy: () => frames.cut(),
  }
}
