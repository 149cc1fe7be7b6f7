/**
 * The messages of one WebSocket, in their order. A large one goes out in fragments, in turns with the large answers of all others
 * (`outgoing.ts`); what comes meanwhile waits behind it, because fragments of one message stand next to each other (RFC 6455, 5.4).
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Message } from '../seam/client.ts'
import type { Part } from '../seam/exchange.ts'
import { textFrames } from '../wire/frames.ts'
import type { Outgoing, Taker } from './outgoing.ts'
import type { Unsent } from './unsent.ts'

/** What it stands on: frames of one connection. */
export interface WebSocketFrames {
  readonly isOpen: boolean
  /** Bytes that the network has not taken. */
  readonly bufferedBytes: number
  /** A whole message; `done` when the network has taken it, or never will. */
  send(data: string | Bytes, done?: () => void): void
  /** Whole messages as frames, in one write. */
  sendFrames(frames: Bytes, done: () => void): void
  /** Calls it when the network has taken nearly all that it was given. */
  onceTaken(go: () => void): void
  /** A fragment of a text message. */
  sendFragment(part: Part, isLast: boolean, done?: () => void): void
  /** Ends the connection without a word. */
  cut(): void
}
export type QueueBounds = {
  /** Bytes that may wait when a message is added. */
  readonly queueBytes: number
  /** The same for messages in parts, the one that is being sent left out. */
  readonly answersBytes: number
  /** Answers beyond these that the network has not taken are unread. */
  readonly unreadBytes: number
}
export interface MessageQueue {
  readonly waitingBytes: number
  /** False: too much waits already. */
  send(data: string | Bytes): boolean
  /** The same for many text messages, in one write. */
  sendAll(messages: readonly Message[]): boolean
  /** The same for the answer to a message. */
  answer(text: string): boolean
  /** Too many answers are unread: no more messages shall be answered. */
  readonly isUnread: boolean
  /** Of an answer; `done` when it is sent, or never will be. */
  sendParts(parts: readonly Part[], done: () => void): boolean
  /** Nothing is sent any more and what waits is let go; `close` once the network has taken what it was given, so that it is heard. */
  leave(close: () => void): void
  /** The connection has ended. */
  end(): void
}

/** Bytes from which a message counts as one that its client must take in time. */
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
  /** Of those that wait: bytes of messages, and of answers in parts. */
  #messageBytes = 0
  #answerBytes = 0
  /** Of answers that the network has not taken. */
  #answeredBytes = 0
  #isUnread = false
  /** Ends the message whose fragments are on their way. */
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
    // What waits is looked at before adding, so that one long message always passes.
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

  answer(text: string): boolean {
    const { bounds, unsent, frames } = this.#options
    if (this.#isFull()) return false
    let isTaken = false
    let forget: (() => void) | undefined
    this.#answeredBytes += text.length
    this.#put(text, () => {
      isTaken = true
      forget?.()
      this.#taken(text.length)
    })
    // Usually the system has it all by now. What it has not is a matter of time only when it is much.
    if (isTaken || this.waitingBytes === 0) return true
    if (text.length >= TIMED_BYTES || this.#answeredBytes > bounds.unreadBytes)
      forget = unsent.add(text.length, frames.cut)
    if (this.waitingBytes > bounds.unreadBytes) this.#look()
    return true
  }

  sendParts(parts: readonly Part[], over: () => void): boolean {
    const { bounds, unsent, frames } = this.#options
    if (this.#answerBytes > bounds.answersBytes) return false
    const bytes = parts.reduce((sum, { length }) => sum + length, 0)
    const forget = unsent.add(bytes, frames.cut)
    const done = () => {
      forget()
      this.#taken(bytes)
      over()
    }
    this.#answeredBytes += bytes
    this.#look()
    if (this.#finish === undefined) this.#begin(parts, done)
    else {
      this.#answerBytes += bytes
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

  #look(): void {
    const isNow = this.#answeredBytes > this.#options.bounds.unreadBytes
    if (isNow === this.#isUnread) return
    this.#isUnread = isNow
    this.#options.onUnread(isNow)
  }
  #taken(bytes: number): void {
    this.#answeredBytes -= bytes
    if (this.#isUnread) this.#look()
  }

  #put(data: string | Bytes, sent?: () => void): void {
    if (this.#finish === undefined) {
      this.#sendWhole(data, sent)
      return
    }
    this.#messageBytes += data.length
    this.#waiting.push({ data, sent })
  }
  #sendWhole(data: string | Bytes, sent: (() => void) | undefined): void {
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
    // What the system has not taken at once counts among what all clients have not taken.
    if (!isTaken && frames.bufferedBytes > 0) forget = unsent.add(data.length, frames.cut)
  }

  #begin(parts: readonly Part[], done: () => void): void {
    const { outgoing, frames, onBug } = this.#options
    this.#finish = () => {
      this.#finish = undefined
      done()
    }
    const isGone = () => this.#hasLeft || !frames.isOpen
    const taker = takerOf(frames, isGone, () => this.#next())
    outgoing.send(parts, taker, onBug)
  }

  /** After a large message: what waits behind it, up to the next large one. */
  #next(): void {
    this.#finish?.()
    while (this.#finish === undefined) {
      const first = this.#waiting.shift()
      if (first === undefined) return
      if ('data' in first) {
        this.#messageBytes -= first.data.length
        this.#sendWhole(first.data, first.sent)
      } else if ('frames' in first) {
        this.#messageBytes -= first.frames.length
        this.#sendFrames(first.frames)
      } else {
        this.#answerBytes -= first.bytes
        this.#begin(first.parts, first.done)
      }
    }
  }
}

function takerOf(frames: WebSocketFrames, isGone: () => boolean, onEnd: () => void): Taker {
  let onRoom: (() => void) | undefined
  return {
    get isGone() {
      return isGone()
    },
    write(part) {
      frames.sendFragment(part, false, () => {
        const go = onRoom
        onRoom = undefined
        go?.()
      })
      return frames.bufferedBytes === 0
    },
    onceRoom(go) {
      onRoom = go
    },
    end() {
      frames.sendFragment('', true)
      onEnd()
    },
    destroy: () => frames.cut(),
  }
}
