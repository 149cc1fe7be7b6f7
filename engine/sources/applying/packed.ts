/** A message of the enriched feed whose long parts are bytes: 0x02 ‖ length of its JSON (4, big-endian) ‖ JSON ‖ the parts, one after the other. */
import type { Bytes } from '../../primitives/bytes.ts'
import { concatBytes } from '../../primitives/words.ts'
import { malformed } from './fields.ts'

/** JSON begins with another byte. */
export const PACKED = 0x02
const HEAD_BYTES = 5

export type Pieces = {
  /** A view. @throws {LeaderError} where less is left */
  take(length: number, what: string): Bytes
  /** @throws {LeaderError} where something is left */
  end(): void
}

export function packMessage(json: string, pieces: readonly Bytes[]): Bytes {
  const text = Buffer.from(json)
  const head = new Uint8Array(HEAD_BYTES)
  head[0] = PACKED
  new DataView(head.buffer).setUint32(1, text.length)
  return concatBytes(head, text, ...pieces)
}

/** @throws {LeaderError} */
export function splitPacked(bytes: Bytes): { readonly head: Bytes; readonly pieces: Pieces } {
  let at = HEAD_BYTES
  const take = (length: number, what: string): Bytes => {
    if (length > bytes.length - at) throw malformed(what, `${length} bytes`)
    at += length
    return bytes.subarray(at - length, at)
  }
  if (bytes.length < HEAD_BYTES) throw malformed('the message', `${HEAD_BYTES} bytes`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const head = take(view.getUint32(1), 'the message')
  const end = () => {
    if (at !== bytes.length) throw malformed('the message', 'nothing behind its parts')
  }
  return { head, pieces: { take, end } }
}
