/** Which long parameters have been asked for lately. */

/** Entries; each is forgotten when another one falls on it. */
const SEEN = 4_096

export type LongTexts = {
  /** Whether it was noted before; notes it. Of other texts one in 2³² is taken for it, and one that others have pushed out is not known. */
  wasSeen(text: string): boolean
}

/**
 * To hash a text that is never asked again costs more than it saves, so it is hashed from its second time on. This tells which that is: 3 µs
 * for 23,000 characters, where sha256 takes 15 and xxhash 11, for the way into native code and back (2026-11). Whoever makes two texts of one
 * mark gains nothing: the second is hashed.
 * @param most characters of a text
 */
export function createLongTexts(most: number): LongTexts {
  const bytes = Buffer.alloc(most + 16)
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2)
  const seen = new Int32Array(SEEN)
  return {
    wasSeen(text) {
      const length = bytes.write(text, 'latin1')
      bytes.fill(0, length, length + 16)
      const mark = markOf(words, (length + 15) >> 4)
      const place = mark & (SEEN - 1)
      const wasSeen = seen[place] === mark
      seen[place] = mark
      return wasSeen
    },
  }
}

/** Four lanes, because a multiplication waits for the one before it. @param blocks of four words */
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
const mixed = (lane: number, word: number): number =>
  Math.imul((lane << 7) ^ (lane >>> 25) ^ word, 0x9e3779b1)
