/**
 * Length of FastLZ level 1 output. OP chains estimate with it how well a transaction compresses
 * (Fjord).
 */
import type { Bytes } from '../primitives/bytes.ts'

/**
 * Returns the number of bytes that FastLZ would need for `data`.
 * The number is part of consensus. Hash, window, lazy table and rounding of runs therefore match
 * the reference compressor to the byte.
 */
export function fastlzLength(data: Bytes): number {
  const limit = data.length < 13 ? 0 : data.length - 13
  const base = take(data.length)
  let length = 0
  /** First byte that is not part of the output yet. */
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
    // The table gets only the two positions behind a match.
    for (const end = at + 2; at < end; at++) SEEN[slotOf(threeAt(data, at))] = base + at
    anchor = at
  }
  return length + literalLength(data.length - anchor)
}

const TABLE_SIZE = 8192
/** Maximum distance to the start of a match. */
const WINDOW = 8191
/** Maximum number of literals in a run, and of bytes in one copy instruction. */
const MAX_LITERALS = 32
const MAX_COPY = 262

/**
 * Scratch table of the last position of each hash. Positions count up across calls; the last entry
 * is the next call's start.
 * An entry below a call's start belongs to an older call and counts as 0. A new table per
 * transaction took 4 of 5 µs, and 32 kB of garbage (November 2026).
 */
const SEEN = new Uint32Array(TABLE_SIZE + 1)
function take(length: number): number {
  if (SEEN[TABLE_SIZE]! + length > 0xffff_ffff) SEEN.fill(0)
  SEEN[TABLE_SIZE]! += length
  return SEEN[TABLE_SIZE]! - length
}

type Search = { readonly data: Bytes; readonly base: number; readonly limit: number }
type Match = { readonly at: number; readonly earlier: number }

/**
 * Finds the first position from `from` on whose three bytes were seen within the window; undefined:
 * none before the limit.
 */
function nextMatch({ data, base, limit }: Search, from: number): Match | undefined {
  for (let at = from; at < limit; at++) {
    const three = threeAt(data, at)
    const slot = slotOf(three)
    const earlier = Math.max(0, SEEN[slot]! - base)
    SEEN[slot] = base + at
    // The compressor advances before it checks a match, so a match at the last position is lost.
    if (at - earlier <= WINDOW && three === threeAt(data, earlier))
      return at + 1 < limit ? { at, earlier } : undefined
  }
  return undefined
}

/**
 * Counts as the compressor does: the equal bytes after the first three, and the first unequal one.
 */
function matchLength(data: Bytes, { at, earlier }: Match, end: number): number {
  const max = end - at - 3
  let length = 0
  while (length < max && data[earlier + 3 + length] === data[at + 3 + length]) length++
  return length < max ? length + 1 : length
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
