/** How much memory the tables need (ADR 3). */
import { DEFAULT_PAGE_BYTES } from './arena.ts'

/** Gas per byte of the cheapest memory a transaction can make a table hold: logs. */
const GAS_PER_BYTE = 8
/** Least gas of a changed slot, and entries of an index that is half full. */
const GAS_PER_ENTRY = 5_000
const ENTRIES_PER_TABLE = DEFAULT_PAGE_BYTES / 16
/** Headers, hashes, ends of pages. */
const BLOCK_BYTES = 256 * 1024

/**
 * Appended blocks that are not folded: a flashblock of one of them can be named. The least is for reorgs; the most, because each is a step
 * of every walk to what no table holds.
 */
export const HELD_BLOCKS = 4
export const MOST_HELD_BLOCKS = 64

export type ViewMemory = { readonly bytes: number; readonly minimum: number }

/**
 * Bytes of the tables' pages for the worst case, and the least with which a node may start.
 * `deadlineMs`: the longest deadline and its grace. `backlog`: appended, unfolded blocks beyond `foldDepth` at which canonical stops.
 * `ahead`: complete blocks above canonical at which flashblocks are ignored.
 */
export function viewMemory(options: {
  readonly gasLimit: number
  readonly blockTimeMs: number
  readonly deadlineMs: number
  readonly foldDepth?: number
  readonly backlog?: number
  readonly ahead?: number
}): ViewMemory {
  const {
    gasLimit,
    blockTimeMs,
    deadlineMs,
    foldDepth = HELD_BLOCKS,
    backlog = 4,
    ahead = 8,
  } = options
  for (const [name, value] of Object.entries({ gasLimit, blockTimeMs, deadlineMs }))
    if (!(value > 0)) throw new RangeError(`view memory: ${name} is ${value}, expected more than 0`)
  const tables = Math.ceil(gasLimit / GAS_PER_ENTRY / ENTRIES_PER_TABLE)
  const block = Math.ceil(gasLimit / GAS_PER_BYTE) + tables * DEFAULT_PAGE_BYTES + BLOCK_BYTES
  // Each height may be taken twice: by a payload and by the canonical block that differs from it.
  const whileReading = 2 * Math.ceil(deadlineMs / blockTimeMs)
  return {
    bytes: wholePages(block * (foldDepth + backlog + ahead + 2 + whileReading)),
    minimum: wholePages(block * (foldDepth + 3)),
  }
}

/** The bytes that `--view-memory` asks for. @throws {RangeError} below the minimum. */
export function chosenMemory(asked: number | undefined, memory: ViewMemory): number {
  if (asked === undefined) return memory.bytes
  if (asked < memory.minimum)
    throw new RangeError(
      `view memory of ${asked} bytes is too little: this chain's gas limit needs at least ${memory.minimum}`,
    )
  return wholePages(asked)
}

const wholePages = (bytes: number) => Math.ceil(bytes / DEFAULT_PAGE_BYTES) * DEFAULT_PAGE_BYTES
