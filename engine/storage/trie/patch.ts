/**
 * A node's row changed in a few places. Where an update changes some hashes of a branch only, which is nearly always, the new bytes are
 * appended to its row instead of the row being written again: a tenth of what is written, compacted and held by the log. Every so many
 * times the row is written whole.
 *
 * What is appended: two zero bytes, which begin no list of inline nodes, then runs: place in the row (2), never 0, length
 * (1), bytes. RocksDB joins what was appended to one row (`stringappend`).
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { type Slab, take } from '../../primitives/slab.ts'
import { inlineAt, inlineEnd } from './inline.ts'
import { type Branch, bitCount, hasRow, lowestBit } from './node.ts'
import { hashAt, listSize, listStart } from './rlp.ts'

/** Place and length. */
const RUN_HEAD = 3
const LONGEST_RUN = 0xff
/** Equal bytes that end a run: fewer cost less than the head of another one. */
const GAP = 4
const MARK_BYTES = 2
/** Appended to one row at the most: a read joins them, and may have to look for each in a file of its own. */
export const MOST_PATCHES = 7

/**
 * How many patches the row of a branch has in the database once the branch is written there, as it will be or is. Of the state of the
 * branch alone: a copy that is made before the write has to know what one that is made after it sees.
 */
export function patchesAfter(branch: Branch): number {
  const { changed, inlined, previous, patches, size } = branch
  if (changed === 0) return patches
  if (changed === -1 || previous === undefined || patches === MOST_PATCHES || !hasRow(branch))
    return 0
  // An inline node has one hash that changed as a rule.
  const runs = bitCount(changed) + bitCount(changed & inlined)
  return runs * (RUN_HEAD + HASH_BYTES) <= size / 2 ? patches + 1 : 0
}
const HASH_BYTES = 32

/** Where patches are made, one after the other: its first two bytes stay zero. Branches with what is inline in them have 2,598 bytes at the most. */
export const patchScratch = (): Bytes => new Uint8Array(16_384)

/** What is appended to the row of a branch, `before`; empty where nothing changed. Not of a branch that may have changed anywhere. */
export function encodePatch(
  branch: Branch,
  before: Bytes,
  { scratch, slab }: { readonly scratch: Bytes; readonly slab: Slab },
): Bytes {
  const { raw, present, changed } = branch
  if (changed === 0) return NO_BYTES
  const start = listStart(raw)
  let to = MARK_BYTES
  // Looks at the children that changed alone: most rows have left the processor's caches.
  for (let rest = changed; rest !== 0; rest &= rest - 1) {
    const nibble = lowestBit(rest)
    to = writeRun(scratch, to, raw, {
      from: start + hashAt(present, nibble) + 1,
      length: HASH_BYTES,
    })
    const inline = inlineAt(branch, nibble)
    if (inline === -1) continue
    const place = { from: inline, length: raw[inline - 1]! }
    to = writeDifferences(scratch, to, { row: raw, other: before, place, end: scratch.length })
  }
  const patch = take(slab, to)
  patch.set(scratch.subarray(0, to))
  return patch
}

/** Bytes of what undoes a patch. */
export const inverseSize = (patch: Bytes): number => Math.max(0, patch.length - MARK_BYTES)
/** The runs of a patch with the bytes of the row before; returns where they end. */
export function writeInverse(bytes: Bytes, at: number, before: Bytes, patch: Bytes): number {
  let to = at
  for (let next = MARK_BYTES; next < patch.length; next += RUN_HEAD + patch[next + 2]!) {
    const from = (patch[next]! << 8) | patch[next + 1]!
    to = writeRun(bytes, to, before, { from, length: patch[next + 2]! })
  }
  return to
}

type Place = { readonly from: number; readonly length: number }
type Comparison = {
  /** Whose bytes are written. */
  readonly row: Bytes
  readonly other: Bytes
  readonly place: Place
  /** No byte is written from there on. */
  readonly end: number
}

/** Runs of what differs; returns where they end, -1 when there is no room for them. */
export function writeDifferences(bytes: Bytes, start: number, comparison: Comparison): number {
  const { row, other, place, end } = comparison
  const last = place.from + place.length
  let to = start
  for (let at = place.from; at < last; at++) {
    if (row[at] === other[at]) continue
    const from = at
    let stop = at + 1
    while (++at < last && at - from < LONGEST_RUN && at - stop < GAP)
      if (row[at] !== other[at]) stop = at + 1
    if (to + RUN_HEAD + stop - from > end) return -1
    to = writeRun(bytes, to, row, { from, length: stop - from })
    at = stop - 1
  }
  return to
}

function writeRun(bytes: Bytes, to: number, row: Bytes, { from, length }: Place): number {
  bytes[to] = from >> 8
  bytes[to + 1] = from & 0xff
  bytes[to + 2] = length
  for (let i = 0; i < length; i++) bytes[to + RUN_HEAD + i] = row[from + i]!
  return to + RUN_HEAD + length
}

/** Sets what the runs say from `at` on, marks left out. False: one is beyond the row, or is not whole; the row is spoilt then. */
export function applyRuns(row: Bytes, runs: Bytes, at: number): boolean {
  for (let next = at; next < runs.length; ) {
    const from = (runs[next]! << 8) | (runs[next + 1] ?? 0)
    if (from === 0) next += MARK_BYTES
    else {
      const begin = next + RUN_HEAD
      const length = runs[next + 2] ?? 0
      if (begin + length > runs.length || from + length > row.length) return false
      for (let i = 0; i < length; i++) row[from + i] = runs[begin + i]!
      next = begin + length
    }
  }
  return true
}

/** A row without its patches, in bytes of its own, and how many it had. */
export type PlainRow = { readonly row: Bytes; readonly patches: number }

/** A stored row as it was last written and patched. What does not fit stays as it is: its hash then is another one. */
export function plainRow(stored: Bytes, take: (length: number) => Bytes): PlainRow {
  const end = rowEnd(stored)
  const row = take(end)
  row.set(end === stored.length ? stored : stored.subarray(0, end))
  if (end === stored.length) return { row, patches: 0 }
  if (!applyRuns(row, stored, end)) return { row: stored, patches: 0 }
  return { row, patches: Math.min(MOST_PATCHES, countMarks(stored, end)) }
}

/** Where the node and those inline in it end. */
function rowEnd(stored: Bytes): number {
  const size = listStart(stored) + listSize(stored)
  if (size >= stored.length || (stored[size] === 0 && stored[size + 1] === 0))
    return Math.min(size, stored.length)
  return Math.min(inlineEnd(stored, size), stored.length)
}

function countMarks(stored: Bytes, from: number): number {
  let marks = 0
  for (let at = from; at < stored.length; )
    if (stored[at] === 0 && stored[at + 1] === 0) {
      marks++
      at += MARK_BYTES
    } else at += RUN_HEAD + stored[at + 2]!
  return marks
}
