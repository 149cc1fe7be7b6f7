/** Conversion between bytes and the 32-bit words of a state reader. */
import type { Bytes } from '../primitives/bytes.ts'

/**
 * Returns the bytes as words; copies only unaligned memory. The length has to be a multiple of 4.
 */
export function wordsOf(bytes: Bytes): Uint32Array {
  const aligned = (bytes.byteOffset & 3) === 0 ? bytes : bytes.slice()
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length >> 2)
}

/** Returns the bytes of the words without a copy. */
export const bytesOf = (words: Uint32Array): Bytes =>
  new Uint8Array(words.buffer, words.byteOffset, words.byteLength)

/** Returns a map key with one character per byte. */
export const latin1 = (bytes: Bytes | Uint32Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')

/** Returns the bytes of a map key. */
export const fromLatin1 = (key: string): Bytes => {
  const bytes = new Uint8Array(key.length)
  for (let i = 0; i < key.length; i++) bytes[i] = key.charCodeAt(i)
  return bytes
}
