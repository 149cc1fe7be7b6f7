/** JSON text of traces. */
import type { Bytes } from '../primitives/bytes.ts'

export const hexText = (bytes: Bytes): string => `"0x${Buffer.from(bytes).toString('hex')}"`
/** A JSON-RPC quantity. */
export const quantityText = (value: bigint | number): string => `"0x${value.toString(16)}"`

/** Any text, in ASCII. */
export const stringText = (text: string): string =>
  JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Pieces of about 64 KiB, so that a long trace is never one string. */
export class Pieces {
  readonly #done: string[] = []
  #open: string[] = []
  #length = 0

  push(text: string): void {
    this.#open.push(text)
    this.#length += text.length
    if (this.#length < PIECE) return
    this.#done.push(this.#open.join(''))
    this.#open = []
    this.#length = 0
  }
  take(): readonly string[] {
    return this.#open.length === 0 ? this.#done : [...this.#done, this.#open.join('')]
  }
}

const PIECE = 65_536
