/**
 * Writes a result too large for one string. Its JSON goes from the worker to the front in pieces.
 * The worker buffers at most one piece. The front collects all pieces until the call ends, because
 * the client gets a full result or an error.
 */
import type { TraceOutput } from '../../engine/tracers/types.ts'
import { LARGE } from './exchange.ts'

/** UTF-8 text, or a length to which the earlier pieces are truncated. */
export type Piece = Uint8Array<ArrayBuffer> | number

/** Writer of one worker, reused for each call. */
export class PieceWriter implements TraceOutput {
  limit = 0
  #put: (piece: Piece) => void = refuse
  #isFull = false
  /** Bytes of the pieces already put. */
  #sent = 0
  /** Bytes used in the open piece. */
  #used = 0
  #open: Buffer<ArrayBuffer> | undefined

  /**
   * Starts an empty result.
   * @param put receives the pieces and owns them
   */
  start(limit: number, put: (piece: Piece) => void): void {
    this.limit = limit
    this.#put = put
    this.#isFull = false
    this.#sent = 0
    this.#used = 0
  }

  get length(): number {
    return this.#sent + this.#used
  }
  get isFull(): boolean {
    return this.#isFull
  }

  write(text: string): void {
    if (this.#isFull || this.length + text.length > this.limit) {
      this.#isFull = true
      return
    }
    this.#open ??= Buffer.from(new ArrayBuffer(LARGE))
    // A UTF-16 code unit takes at most three bytes of UTF-8.
    if (text.length * 3 <= LARGE - this.#used) this.#used += this.#open.write(text, this.#used)
    else this.#writeAcross(text)
  }

  writeBytes(text: Uint8Array): void {
    if (this.#isFull || this.length + text.length > this.limit) {
      this.#isFull = true
      return
    }
    for (let rest = text; ; this.#send()) {
      this.#open ??= Buffer.from(new ArrayBuffer(LARGE))
      const part = rest.subarray(0, LARGE - this.#used)
      this.#open.set(part, this.#used)
      this.#used += part.length
      if (part.length === rest.length) return
      rest = rest.subarray(part.length)
    }
  }

  /**
   * Writes a text over a piece boundary. `encodeInto` costs twice a plain write, but reports where
   * the piece is full.
   */
  #writeAcross(text: string): void {
    for (let rest = text; ; this.#send()) {
      this.#open ??= Buffer.from(new ArrayBuffer(LARGE))
      const { read, written } = encoder.encodeInto(rest, this.#open.subarray(this.#used))
      this.#used += written
      if (read === rest.length) return
      rest = rest.slice(read)
    }
  }

  cutTo(length: number): void {
    this.#isFull = false
    if (length < this.#sent) {
      this.#put(length)
      this.#sent = length
    }
    this.#used = length - this.#sent
  }

  /**
   * Ends the result.
   * @returns the text if it fits one piece; undefined if `put` received all pieces
   */
  end(): string | undefined {
    if (this.#sent === 0) return this.#open?.toString('utf8', 0, this.#used) ?? ''
    if (this.#used > 0) this.#send()
    return undefined
  }

  #send(): void {
    const piece = this.#open!
    const length = this.#used
    this.#sent += length
    this.#used = 0
    // The last piece is short and copied, so that its buffer can be reused.
    if (length < LARGE / 2) this.#put(new Uint8Array(piece.subarray(0, length)))
    else {
      this.#open = undefined
      this.#put(piece.subarray(0, length))
    }
  }
}

/** Applies the truncations and returns the remaining pieces. */
export function collectPieces(all: Iterable<Piece>): readonly Uint8Array[] {
  const pieces: Uint8Array[] = []
  let length = 0
  for (const one of all) {
    if (typeof one !== 'number') {
      pieces.push(one)
      length += one.length
      continue
    }
    while (length > one) {
      const last = pieces.pop()!
      length -= last.length
      if (length < one) {
        pieces.push(last.subarray(0, one - length))
        length = one
      }
    }
  }
  return pieces
}

export const bytesOf = (pieces: readonly Uint8Array[]): number =>
  pieces.reduce((sum, piece) => sum + piece.length, 0)

const encoder = new TextEncoder()

function refuse(): never {
  throw new Error('no result was started')
}
