/** Length of FastLZ level 1 output, by which OP chains estimate how well a transaction compresses (Fjord). */
import type { Bytes } from '../primitives/bytes.ts'

/**
 * Bytes that FastLZ would take for `data`. It is a consensus figure: hash, window, the lazy table and the rounding of runs are those
 * of the reference compressor, to the byte.
 */
export function fastlzLength(data: Bytes): number {
  const limit = data.length < 13 ? 0 : data.length - 13
  const base = take(data.length)
  let length = 0
  /** First byte not yet written out. */
  let anchor = 0
  let at = 2
  while (at < limit) {
    const found = nextMatch({ data, base, limit }, at)
    if (found === undefined) break
    at = found.at
    if (at > anchor) length += literalLength(at - anchor)
    const matched = matchLength(data, found, limit + 9)
    length += copyLength(matched)
    at += matched
    // Of a match only the two places behind it enter the table.
    for (const end = at + 2; at < end; at++) SEEN[slotOf(threeAt(data, at))] = base + at
    anchor = at
  }
  return length + literalLength(data.length - anchor)
}

const TABLE_SIZE = 8192
/** A match may start this far back. */
const WINDOW = 8191
/** Literals in a run, and bytes in one instruction's copy. */
const MAX_LITERALS = 32
const MAX_COPY = 262

/**
 * Scratch: where each slot's bytes were last seen, counted on from one call to the next, and behind them where the next one begins to count. What is
 * below a call's base is of another one, and as good as the zero that a call begins with. A new table for each transaction was 4 of 5 µs
 * and 32 kB to collect (2026-11).
 */
const SEEN = new Uint32Array(TABLE_SIZE + 1)
function take(length: number): number {
  if (SEEN[TABLE_SIZE]! + length > 0xffff_ffff) SEEN.fill(0)
  SEEN[TABLE_SIZE]! += length
  return SEEN[TABLE_SIZE]! - length
}

type Search = { readonly data: Bytes; readonly base: number; readonly limit: number }
type Match = { readonly at: number; readonly earlier: number }

/** The first place from `from` on whose three bytes were seen within the window; undefined: none before the limit. */
function nextMatch({ data, base, limit }: Search, from: number): Match | undefined {
  for (let at = from; at < limit; at++) {
    const three = threeAt(data, at)
    const slot = slotOf(three)
    const earlier = Math.max(0, SEEN[slot]! - base)
    SEEN[slot] = base + at
    // The compressor steps on before it looks at what it found: a match at the last place is lost.
    if (at - earlier <= WINDOW && three === threeAt(data, earlier))
      return at + 1 < limit ? { at, earlier } : undefined
  }
  return undefined
}

/** As the compressor counts: the bytes after the first three that are equal, and the first that is not. */
function matchLength(data: Bytes, { at, earlier }: Match, end: number): number {
  const most = end - at - 3
  let length = 0
  while (length < most && data[earlier + 3 + length] === data[at + 3 + length]) length++
  return length < most ? length + 1 : length
}

function literalLength(count: number): number {
  const rest = count % MAX_LITERALS
  return Math.floor(count / MAX_LITERALS) * (MAX_LITERALS + 1) + (rest === 0 ? 0 : rest + 1)
}

function copyLength(matched: number): number {
  const rest = (matched - 1) % MAX_COPY
  return Math.floor((matched - 1) / MAX_COPY) * 3 + (rest >= 6 ? 3 : 2)
}

const threeAt = (data: Bytes, at: number) =>
  data[at]! | (data[at + 1]! << 8) | (data[at + 2]! << 16)
const slotOf = (three: number) => Math.imul(0x9e3779b9, three) >>> 19
