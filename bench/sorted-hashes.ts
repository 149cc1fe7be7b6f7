/** Sorts many hashes with 8 bytes of memory for each. */
import type { Bytes } from '../engine/primitives/bytes.ts'

const INDEX_BITS = 24

/**
 * Returns two words for each hash: its first 40 bits, then its index (`indexIn`); at most 2²⁴
 * hashes.
 * @param hashOf returns a unique hash for each index, the same at each call
 */
export function sortedHashes(count: number, hashOf: (index: number) => Bytes): Uint32Array {
  if (count > 2 ** INDEX_BITS) throw new RangeError(`${count} hashes, at most ${2 ** INDEX_BITS}`)
  const sorted = new BigUint64Array(count)
  const words = new Uint32Array(sorted.buffer)
  for (let index = 0; index < count; index++) {
    const hash = hashOf(index)
    words[2 * index] = ((hash[4]! << INDEX_BITS) | index) >>> 0
    words[2 * index + 1] = ((hash[0]! << 24) | (hash[1]! << 16) | (hash[2]! << 8) | hash[3]!) >>> 0
  }
  sorted.sort()
  // Hashes with the same 40 bits are compared in full.
  for (let at = 1; at < count; at++) {
    if (sorted[at]! >> BigInt(INDEX_BITS) !== sorted[at - 1]! >> BigInt(INDEX_BITS)) continue
    const hashes = [at - 1, at].map((of) => hashOf(indexIn(words, of)))
    if (Buffer.compare(hashes[0]!, hashes[1]!) > 0)
      [sorted[at - 1], sorted[at]] = [sorted[at]!, sorted[at - 1]!]
  }
  return words
}

/** Index of the hash at this position in the order. */
export const indexIn = (words: Uint32Array, at: number): number =>
  words[2 * at]! & (2 ** INDEX_BITS - 1)
