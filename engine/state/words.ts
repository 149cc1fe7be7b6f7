/** Bytes seen as the 32-bit words that a state reader takes and gives, and back. */
import type { Bytes } from '../primitives/bytes.ts'

/** The same bytes as words; a copy only where the memory is not aligned. The length is a multiple of 4. */
export function wordsOf(bytes: Bytes): Uint32Array {
  const aligned = (bytes.byteOffset & 3) === 0 ? bytes : bytes.slice()
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length >> 2)
}

/** The bytes that the words hold, no copy. */
export const bytesOf = (words: Uint32Array): Bytes =>
  new Uint8Array(words.buffer, words.byteOffset, words.byteLength)

/** A map key: one character per byte. */
export const latin1 = (bytes: Bytes | Uint32Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')

/** The bytes of a map key. */
export const fromLatin1 = (key: string): Bytes => {
  const bytes = new Uint8Array(key.length)
  for (let i = 0; i < key.length; i++) bytes[i] = key.charCodeAt(i)
  return bytes
}
