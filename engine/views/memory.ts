/** Memory that the diff layers need (ADR 3). */
import { DEFAULT_PAGE_BYTES } from './arena.ts'

/** Gas per byte of logs, the cheapest way for a transaction to fill a diff layer. */
const GAS_PER_BYTE = 8
/** Minimum gas of a changed slot, and the entries of an index that is half full. */
const GAS_PER_ENTRY = 5_000
const ENTRIES_PER_DIFF_LAYER = DEFAULT_PAGE_BYTES / 16
/** Allowance for headers, hashes and the unused ends of pages. */
const BLOCK_BYTES = 256 * 1024

/**
 * Minimum and maximum number of appended blocks that are not persisted; their flashblocks can be
 * requested.
 * Reorgs need the minimum. The maximum exists because each block is a step of every lookup that
 * finds nothing in the diff layers.
 */
export const RETAINED_BLOCKS = 4
export const MAX_RETAINED_BLOCKS = 64

export type ViewMemory = { readonly bytes: number; readonly minimum: number }

/**
 * Computes the bytes of the diff layers' pages: for the worst case, and the minimum for a start.
 * @param options `deadlineMs`: the longest deadline with its grace. `backlog`: appended,
 * unpersisted blocks beyond `foldDepth` at which canonical stops. `lead`: complete blocks above
 * canonical at which flashblocks are ignored.
 */
export function viewMemory(options: {
  readonly gasLimit: number
  readonly blockTimeMs: number
  readonly deadlineMs: number
  readonly foldDepth?: number
  readonly backlog?: number
  readonly lead?: number
}): ViewMemory {
  const {
    gasLimit,
    blockTimeMs,
    deadlineMs,
    foldDepth = RETAINED_BLOCKS,
    backlog = 4,
    lead = 8,
  } = options
  for (const [name, value] of Object.entries({ gasLimit, blockTimeMs, deadlineMs }))
    if (!(value > 0)) throw new RangeError(`view memory: ${name} is ${value}, expected more than 0`)
  const diffLayers = Math.ceil(gasLimit / GAS_PER_ENTRY / ENTRIES_PER_DIFF_LAYER)
  const block = Math.ceil(gasLimit / GAS_PER_BYTE) + diffLayers * DEFAULT_PAGE_BYTES + BLOCK_BYTES
  // Each height can be stored twice: from a payload and from a canonical block that differs.
  const whileReading = 2 * Math.ceil(deadlineMs / blockTimeMs)
  return {
    bytes: toPages(block * (foldDepth + backlog + lead + 2 + whileReading)),
    minimum: toPages(block * (foldDepth + 3)),
  }
}

/**
 * Returns the bytes for `--view-memory`.
 * @throws {RangeError} below the minimum
 */
export function chosenMemory(requested: number | undefined, memory: ViewMemory): number {
  if (requested === undefined) return memory.bytes
  if (requested < memory.minimum)
    throw new RangeError(
      `view memory of ${requested} bytes is too little: this chain's gas limit needs at least ${memory.minimum}`,
    )
  return toPages(requested)
}

const toPages = (bytes: number) => Math.ceil(bytes / DEFAULT_PAGE_BYTES) * DEFAULT_PAGE_BYTES
