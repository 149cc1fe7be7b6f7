/**
 * Large answers on their way out: each gives a piece in its turn, and the event loop runs between two pieces. As one string an answer of
 * 25 MB held the front for 60 ms: it is joined, measured, encoded and handed to the system, each over memory that is touched first there.
 */
import type { ServerResponse } from 'node:http'
import { LARGE, type Part } from './exchange.ts'

export interface Outgoing {
  /** The headers are written. `onBug`: the text is not what it must be, and the connection is destroyed. */
  send(response: ServerResponse, parts: readonly Part[], onBug: (error: unknown) => void): void
}

type Sending = {
  readonly response: ServerResponse
  readonly pieces: Iterator<Part, void>
  readonly onBug: (error: unknown) => void
}

export function createOutgoing(): Outgoing {
  /** Those whose socket takes more; bounded by the answers that clients have not taken (`unsent.ts`). */
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
    if (sending !== undefined && !sending.response.destroyed) sendPiece(sending)
    schedule()
  }
  function sendPiece(sending: Sending): void {
    const { response, pieces, onBug } = sending
    try {
      const piece = pieces.next()
      if (piece.done === true) response.end()
      else if (write(response, piece.value)) ready.push(sending)
      else
        response.once('drain', () => {
          ready.push(sending)
          schedule()
        })
    } catch (error) {
      onBug(error)
      response.destroy()
    }
  }

  return {
    send(response, parts, onBug) {
      ready.push({ response, pieces: piecesOf(parts), onBug })
      schedule()
    },
  }
}

function write(response: ServerResponse, piece: Part): boolean {
  return typeof piece === 'string'
    ? response.write(asciiOf(piece), 'latin1')
    : response.write(piece)
}

/** Its length was announced in characters. */
function asciiOf(text: string): string {
  if (Buffer.byteLength(text) !== text.length) throw new Error('an answer is not plain ASCII')
  return text
}

/** Of the size of a large answer, but for the last; no part is copied but text to be joined with its neighbours. */
function* piecesOf(parts: readonly Part[]): Generator<Part, void> {
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
