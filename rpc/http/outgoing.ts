/**
 * Sends large responses in parts, in turns, so that the event loop runs between two parts. One
 * string of 25 MB blocked the front for 60 ms. It is joined, measured, encoded and written, each
 * time in newly allocated memory.
 */
import { LARGE, type Part } from '../core/exchange.ts'

/** A connection that takes a response in parts. */
export interface Taker {
  readonly isGone: boolean
  /** Writes a part. False: the next part must wait for `onceDrained`. */
  write(part: Part): boolean
  onceDrained(go: () => void): void
  /** Ends the response after its last part. */
  end(): void
  /** Closes the connection. */
  destroy(): void
}
export interface Outgoing {
  /**
   * Sends a response.
   * @param onBug reports a part that cannot be written, which no client can cause; the connection
   *   is then destroyed
   */
  send(parts: readonly Part[], taker: Taker, onBug: (error: unknown) => void): void
}

type Sending = {
  readonly taker: Taker
  readonly parts: Iterator<Part, void>
  readonly onBug: (error: unknown) => void
}

export function createOutgoing(): Outgoing {
  /** Responses whose connection takes more; bounded by the unsent responses (`unsent.ts`). */
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
        taker.onceDrained(() => {
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
      ready.push({ taker, parts: concatSmall(parts), onBug })
      schedule()
    },
  }
}

/**
 * Joins short texts up to the size of a large response, and splits longer ones. Bytes are not
 * copied.
 */
function* concatSmall(parts: readonly Part[]): Generator<Part, void> {
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
