/**
 * Large answers on their way out: each gives a part in its turn, and the event loop runs between two parts. As one string an answer of
 * 25 MB held the front for 60 ms: it is joined, measured, encoded and handed to the system, each over memory that is touched first there.
 */
import { LARGE, type Part } from '../seam/exchange.ts'

/** A connection that takes an answer part by part. */
export interface Taker {
  readonly isGone: boolean
  /** False: the next part shall wait until there is room. */
  write(part: Part): boolean
  onceRoom(go: () => void): void
  /** All is written. */
  end(): void
  /** Ends the connection. */
  destroy(): void
}
export interface Outgoing {
  /** `onBug`: a part cannot be written, which no client can cause, and the connection is destroyed. */
  send(parts: readonly Part[], taker: Taker, onBug: (error: unknown) => void): void
}

type Sending = {
  readonly taker: Taker
  readonly parts: Iterator<Part, void>
  readonly onBug: (error: unknown) => void
}

export function createOutgoing(): Outgoing {
  /** Those whose connection takes more; bounded by the answers that clients have not taken (`unsent.ts`). */
  const ready: Sending[] = []
  let isScheduled = false

  function schedule(): void {
    if (isScheduled || ready.length === 0) return
    isScheduled = true
    setImmediate(turn)
  }
  function turn(): void {
    isScheduled = false
    const sending = ready.shift()
    if (sending !== undefined && !sending.taker.isGone) sendPart(sending)
    schedule()
  }
  function sendPart(sending: Sending): void {
    const { taker, parts, onBug } = sending
    try {
      const next = parts.next()
      if (next.done === true) taker.end()
      else if (taker.write(next.value)) ready.push(sending)
      else
        taker.onceRoom(() => {
          ready.push(sending)
          schedule()
        })
    } catch (error) {
      onBug(error)
      taker.destroy()
    }
  }

  return {
    send(parts, taker, onBug) {
      ready.push({ taker, parts: joined(parts), onBug })
      schedule()
    },
  }
}

/** Of the size of a large answer, but for the last; no part is copied but text to be joined with its neighbours. */
function* joined(parts: readonly Part[]): Generator<Part, void> {
  let text = ''
  for (const part of parts) {
    if (typeof part !== 'string') {
      if (text !== '') yield text
      text = ''
      yield part
      continue
    }
    for (let from = 0; from < part.length; from += LARGE) {
      const slice = part.length <= LARGE ? part : part.slice(from, from + LARGE)
      if (text.length + slice.length > LARGE && text !== '') {
        yield text
        text = ''
      }
      text += slice
    }
  }
  if (text !== '') yield text
}
