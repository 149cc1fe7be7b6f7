/** Detects long parameters that were requested lately. */

/** Number of entries. A text with the same index replaces an entry. */
const SEEN = 4_096

export type LongTexts = {
  /**
   * Tells whether the text was recorded before, and records it. One text in 2³² gives a false yes;
   * a replaced entry gives a false no.
   */
  wasSeen(text: string): boolean
}

/**
 * Creates the detector. A text that is never requested again is not worth hashing, so the cache
 * hashes it at the second request. The check takes 3 µs for 23,000 characters. Native sha256 takes
 * 15 µs and xxhash 11 µs, mainly for the call into native code (2026-11). A client with colliding
 * texts gains nothing, because the second text is then hashed.
 * @param max maximum characters of a text
 */
export function createLongTexts(max: number): LongTexts {
  const bytes = Buffer.alloc(max + 16)
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2)
  const seen = new Int32Array(SEEN)
  return {
    wasSeen(text) {
      const length = bytes.write(text, 'latin1')
      bytes.fill(0, length, length + 16)
      const mark = markOf(words, (length + 15) >> 4)
      const index = mark & (SEEN - 1)
      const wasSeen = seen[index] === mark
      seen[index] = mark
      return wasSeen
    },
  }
}

/**
 * Computes the mark of a text. Four accumulators run in parallel, because a multiplication waits
 * for the previous one.
 * @param blocks number of blocks of four words
 */
function markOf(words: Int32Array, blocks: number): number {
  let [a, b, c, d] = [blocks, 1, 2, 3]
  for (let at = 0; at < 4 * blocks; at += 4) {
    a = mixed(a, words[at]!)
    b = mixed(b, words[at + 1]!)
    c = mixed(c, words[at + 2]!)
    d = mixed(d, words[at + 3]!)
  }
  const mark = mixed(mixed(mixed(a, b), c), d)
  return mark ^ (mark >>> 15)
}
const mixed = (accumulator: number, word: number): number =>
  Math.imul((accumulator << 7) ^ (accumulator >>> 25) ^ word, 0x9e3779b1)
