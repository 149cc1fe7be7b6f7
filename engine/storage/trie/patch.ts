/**
 * Patches of a node's row. An update nearly always changes only some hashes of a branch. Then the
 * new bytes are appended to the row, instead of writing the row again. This reduces the bytes
 * written, compacted and retained by the log to a tenth. After several patches the row is written
 * again.
 *
 * A patch is two zero bytes, which start no list of inline nodes, then runs. A run is position in
 * the row (2), never 0, length (1), bytes. RocksDB joins the patches of one row (`stringappend`).
 */
import { type Bytes, NO_BYTES, type Slab, take } from '../../primitives/bytes.ts'
import { inlineAt, inlineEnd } from './inline.ts'
import { type Branch, bitCount, hasRow, lowestBit } from './node.ts'
import { hashAt, listSize, listStart } from './rlp.ts'

/** Position and length. */
const RUN_HEAD = 3
const LONGEST_RUN = 0xff
/** Equal bytes that end a run. A shorter gap costs less than the head of another run. */
const GAP = 4
const MASK_BYTES = 2
/**
 * Largest number of patches of one row. A read joins them, and may have to search a file for each.
 */
export const MAX_PATCHES = 7

/**
 * Number of patches that a branch's row has in the database after the branch is written. The number
 * depends on the branch alone, because copies made before and after the write need the same one.
 */
export function patchesAfter(branch: Branch): number {
  const { changed, inlined, previous, patches, size } = branch
  if (changed === 0) return patches
  if (changed === -1 || previous === undefined || patches === MAX_PATCHES || !hasRow(branch))
    return 0
  // Usually only one hash of an inline node changed.
  const runs = bitCount(changed) + bitCount(changed & inlined)
  return runs * (RUN_HEAD + HASH_BYTES) <= size / 2 ? patches + 1 : 0
}
const HASH_BYTES = 32

/**
 * Buffer in which patches are made, one after the other. The first two bytes stay zero. The row of
 * a branch has at most 2,598 bytes.
 */
export const patchScratch = (): Bytes => new Uint8Array(16_384)

/**
 * Encodes the patch of a branch's row; empty if nothing changed. `changed` of the branch must not
 * be −1.
 * @param before the row before the changes
 */
export function encodePatch(
  branch: Branch,
  before: Bytes,
  { scratch, slab }: { readonly scratch: Bytes; readonly slab: Slab },
): Bytes {
  const { raw, present, changed } = branch
  if (changed === 0) return NO_BYTES
  const start = listStart(raw)
  let to = MASK_BYTES
  // Only changed children are read, because most rows have left the processor's caches.
  for (let rest = changed; rest !== 0; rest &= rest - 1) {
    const nibble = lowestBit(rest)
    to = writeRun(scratch, to, raw, {
      from: start + hashAt(present, nibble) + 1,
      length: HASH_BYTES,
    })
    const inline = inlineAt(branch, nibble)
    if (inline === -1) continue
    const range = { from: inline, length: raw[inline - 1]! }
    to = writeDifferences(scratch, to, { row: raw, other: before, range, end: scratch.length })
  }
  const patch = take(slab, to)
  patch.set(scratch.subarray(0, to))
  return patch
}

/** Bytes of the runs that undo a patch. */
export const inverseSize = (patch: Bytes): number => Math.max(0, patch.length - MASK_BYTES)
/**
 * Writes the runs that undo a patch, with the bytes of the row before. Returns the end of the runs.
 */
export function writeInverse(bytes: Bytes, at: number, before: Bytes, patch: Bytes): number {
  let to = at
  for (let next = MASK_BYTES; next < patch.length; next += RUN_HEAD + patch[next + 2]!) {
    const from = (patch[next]! << 8) | patch[next + 1]!
    to = writeRun(bytes, to, before, { from, length: patch[next + 2]! })
  }
  return to
}

type ByteRange = { readonly from: number; readonly length: number }
type Comparison = {
  /** Row whose bytes are written. */
  readonly row: Bytes
  readonly other: Bytes
  readonly range: ByteRange
  /** End of the buffer for the runs. */
  readonly end: number
}

/** Writes runs of the bytes that differ. Returns their end, or −1 if they do not fit. */
export function writeDifferences(bytes: Bytes, start: number, comparison: Comparison): number {
  const { row, other, range, end } = comparison
  const last = range.from + range.length
  let to = start
  for (let at = range.from; at < last; at++) {
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

function writeRun(bytes: Bytes, to: number, row: Bytes, { from, length }: ByteRange): number {
  bytes[to] = from >> 8
  bytes[to + 1] = from & 0xff
  bytes[to + 2] = length
  for (let i = 0; i < length; i++) bytes[to + RUN_HEAD + i] = row[from + i]!
  return to + RUN_HEAD + length
}

/**
 * Applies runs from `at` on, and skips the zero bytes of patches.
 * @returns false if a run is incomplete or beyond the row, which is spoilt then
 */
export function applyRuns(row: Bytes, runs: Bytes, at: number): boolean {
  for (let next = at; next < runs.length; ) {
    const from = (runs[next]! << 8) | (runs[next + 1] ?? 0)
    if (from === 0) next += MASK_BYTES
    else {
      const runStart = next + RUN_HEAD
      const length = runs[next + 2] ?? 0
      if (runStart + length > runs.length || from + length > row.length) return false
      for (let i = 0; i < length; i++) row[from + i] = runs[runStart + i]!
      next = runStart + length
    }
  }
  return true
}

/** A row with its patches applied, in memory of its own, and their number. */
export type PlainRow = { readonly row: Bytes; readonly patches: number }

/**
 * Applies the patches of a stored row. A row with invalid patches is returned unchanged, so that
 * its hash is wrong.
 */
export function plainRow(stored: Bytes, take: (length: number) => Bytes): PlainRow {
  const end = rowEnd(stored)
  const row = take(end)
  row.set(end === stored.length ? stored : stored.subarray(0, end))
  if (end === stored.length) return { row, patches: 0 }
  if (!applyRuns(row, stored, end)) return { row: stored, patches: 0 }
  return { row, patches: Math.min(MAX_PATCHES, countBits(stored, end)) }
}

/** End of the node and its inline nodes. */
function rowEnd(stored: Bytes): number {
  const size = listStart(stored) + listSize(stored)
  if (size >= stored.length || (stored[size] === 0 && stored[size + 1] === 0))
    return Math.min(size, stored.length)
  return Math.min(inlineEnd(stored, size), stored.length)
}

function countBits(stored: Bytes, from: number): number {
  let bits = 0
  for (let at = from; at < stored.length; )
    if (stored[at] === 0 && stored[at + 1] === 0) {
      bits++
      at += MASK_BYTES
    } else at += RUN_HEAD + stored[at + 2]!
  return bits
}
