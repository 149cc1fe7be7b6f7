/** Lists of byte strings in one row. */
import type { Bytes } from '../../primitives/bytes.ts'

/** Encodes the number of items, then each item behind its length. */
export function encodeList(items: readonly Bytes[]): Bytes {
  const bytes = new Uint8Array(items.reduce((size, item) => size + 4 + item.length, 4))
  const view = new DataView(bytes.buffer)
  view.setUint32(0, items.length)
  let at = 4
  for (const item of items) {
    view.setUint32(at, item.length)
    bytes.set(item, at + 4)
    at += 4 + item.length
  }
  return bytes
}

/**
 * Decodes a list; its items share the memory of `bytes`.
 * @throws {StoredFormatError}
 */
export function decodeList(bytes: Bytes): Bytes[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (bytes.length < 4) throw new StoredFormatError('list', 0, bytes.length)
  const items: Bytes[] = []
  let at = 4
  for (let left = view.getUint32(0); left > 0; left--) {
    const length = at + 4 <= bytes.length ? view.getUint32(at) : Number.POSITIVE_INFINITY
    if (at + 4 + length > bytes.length) throw new StoredFormatError('list', at, bytes.length)
    items.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  if (at !== bytes.length) throw new StoredFormatError('list', at, bytes.length)
  return items
}

/** The row was not written by this version: the database is damaged. */
export class StoredFormatError extends Error {
  override name = 'StoredFormatError'
  constructor(what: string, at: number, length: number) {
    super(`stored ${what}: cut short or too long at byte ${at} of ${length}`)
  }
}
