/** Consecutive RLP items in a stream too long for one buffer. */
import { type Bytes, NO_BYTES } from './bytes.ts'
import { RlpError } from './rlp.ts'
import { concatBytes } from './words.ts'

/**
 * Yields each complete item with its prefix, in bytes of its own.
 * @param maxBytes maximum size of one item
 * @throws {RlpError} for a longer item, and for a stream that ends within an item
 */
export async function* rlpItems(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Bytes> {
  let parts: Bytes[] = []
  let length = 0
  /** Size of the item in progress; undefined: the prefix is incomplete. */
  let wanted: number | undefined
  const bufferedBytes = (): Bytes => {
    const [first = NO_BYTES] = parts
    if (parts.length !== 1) parts = [concatBytes(...parts)]
    return parts[0] ?? first
  }
  for await (const chunk of chunks) {
    // The copy is needed, because slices of a Buffer share its memory.
    parts.push(Uint8Array.from(chunk))
    length += chunk.length
    for (;;) {
      if (length === 0) break
      wanted ??=
        length >= PREFIX_BYTES ? itemBytes(bufferedBytes()) : itemBytesOfShort(bufferedBytes())
      if (wanted !== undefined && wanted > maxBytes)
        throw new RlpError(`rlp: an item of ${wanted} bytes, at most ${maxBytes} expected`)
      if (wanted === undefined || length < wanted) break
      const all = bufferedBytes()
      yield all.slice(0, wanted)
      parts = [all.subarray(wanted)]
      length -= wanted
      wanted = undefined
    }
  }
  if (length > 0)
    throw new RlpError(`rlp: the stream ends within an item, after ${length} bytes of it`)
}

const PREFIX_BYTES = 9

/** Returns the size of the item at the start, with its prefix. */
function itemBytes(bytes: Bytes): number {
  const first = bytes[0]!
  if (first < 0x80) return 1
  if (first < 0xb8) return first - 0x7f
  if (first < 0xc0) return longBytes(bytes, first - 0xb7)
  if (first < 0xf8) return first - 0xbf
  return longBytes(bytes, first - 0xf7)
}

function longBytes(bytes: Bytes, lengthBytes: number): number {
  let length = 0
  for (let at = 1; at <= lengthBytes; at++) length = length * 256 + bytes[at]!
  return 1 + lengthBytes + length
}

/** Returns undefined when the end of a chunk cuts the prefix. */
function itemBytesOfShort(bytes: Bytes): number | undefined {
  const first = bytes[0]!
  const prefix = first >= 0xf8 ? first - 0xf6 : first >= 0xb8 && first < 0xc0 ? first - 0xb6 : 1
  return bytes.length < prefix ? undefined : itemBytes(bytes)
}
