/**
 * The messages of one WebSocket, in their order. A large one goes out in fragments, in turns with the large answers of all others
 * (`outgoing.ts`); what comes meanwhile waits behind it, because fragments of one message stand next to each other (RFC 6455, 5.4).
 */
import type { Bytes } from '../engine/primitives/bytes.ts'
import type { Part } from './exchange.ts'
import type { Outgoing, Taker } from './outgoing.ts'
import type { Unsent } from './unsent.ts'

/** What it stands on: frames of one connection. */
export interface Frames {
  readonly isOpen: boolean
  /** Bytes that the network has not taken. */
  readonly bufferedBytes: number
  /** A whole message; `done` when the network has taken it, or never will. */
  send(data: string | Bytes, done?: () => void): void
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
}
export interface MessageQueue {
  readonly waitingBytes: number
  /** False: too much waits already. */
  send(data: string | Bytes): boolean
  /** `done` when it is sent, or never will be. */
  sendParts(parts: readonly Part[], done: () => void): boolean
  /** The connection has ended. */
  end(): void
}

/** Bytes from which a message counts as one that its client must take in time. */
const LARGE = 65_536

type Waiting =
  | { readonly data: string | Bytes }
  | { readonly parts: readonly Part[]; readonly bytes: number; readonly done: () => void }

export function createMessageQueue(options: {
  readonly frames: Frames
  readonly outgoing: Outgoing
  readonly unsent: Unsent
  readonly bounds: QueueBounds
  readonly onBug: (error: unknown) => void
}): MessageQueue {
  const { frames, outgoing, unsent, bounds, onBug } = options
  const waiting: Waiting[] = []
  /** Of those that wait: bytes of messages, and of answers in parts. */
  let messageBytes = 0
  let answerBytes = 0
  /** Ends the message whose fragments are on their way. */
  let finish: (() => void) | undefined

  function sendWhole(data: string | Bytes): void {
    if (data.length < LARGE) frames.send(data)
    else frames.send(data, unsent.add(data.length, frames.cut))
  }

  function begin(parts: readonly Part[], done: () => void): void {
    finish = () => {
      finish = undefined
      done()
    }
    outgoing.send(parts, takerOf(frames, next), onBug)
  }

  /** After a large message: what waits behind it, up to the next large one. */
  function next(): void {
    finish?.()
    while (finish === undefined) {
      const first = waiting.shift()
      if (first === undefined) return
      if ('data' in first) {
        messageBytes -= first.data.length
        sendWhole(first.data)
      } else {
        answerBytes -= first.bytes
        begin(first.parts, first.done)
      }
    }
  }

  return {
    get waitingBytes() {
      return frames.bufferedBytes + messageBytes
    },
    send(data) {
      // What waits is looked at before adding, so that one long message always passes.
      if (frames.bufferedBytes + messageBytes > bounds.queueBytes) return false
      if (finish === undefined) sendWhole(data)
      else {
        messageBytes += data.length
        waiting.push({ data })
      }
      return true
    },
    sendParts(parts, over) {
      if (answerBytes > bounds.answersBytes) return false
      const bytes = parts.reduce((sum, { length }) => sum + length, 0)
      const taken = unsent.add(bytes, frames.cut)
      const done = () => {
        taken()
        over()
      }
      if (finish === undefined) begin(parts, done)
      else {
        answerBytes += bytes
        waiting.push({ parts, bytes, done })
      }
      return true
    },
    end() {
      finish?.()
      for (const one of waiting.splice(0)) if ('done' in one) one.done()
    },
  }
}

function takerOf(frames: Frames, onEnd: () => void): Taker {
  let onRoom: (() => void) | undefined
  return {
    get isGone() {
      return !frames.isOpen
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
