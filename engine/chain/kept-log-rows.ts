/** Logs of folded blocks that a thread keeps for its next search. They are what they are until something is unfolded. */
import { newSlab, type Slab } from '../primitives/slab.ts'
import type { LogRows } from './types.ts'

/** Of one thread, for searches one after the other. */
export interface KeptLogRows {
  /** undefined: not kept, or of another count of unfolds than the view's: the height may have another block. */
  get(height: number, unfolds: number): LogRows | undefined
  /** What was read in a view of this count, and is still as it was read. */
  keep(rows: LogRows, unfolds: number): void
  /** Where what is kept lies. */
  readonly slab: Slab
  readonly stats: {
    readonly hits: number
    readonly misses: number
    readonly blocks: number
    readonly bytes: number
  }
}

/** Of an entry, beside its bytes: it, its parts and its place. */
const ENTRY_BYTES = 400
/** As small as a share of the bound that is no matter: what is left of it is kept as long as one entry in it. */
const SLAB_BYTES = 65_536

/** @param limitBytes the oldest make room; 0: nothing is kept */
export function keepLogRows(limitBytes: number): KeptLogRows {
  const kept = new Map<number, LogRows>()
  /** Oldest first, from `from` on: a map finds its own oldest by walking over those that were deleted before. */
  let order: number[] = []
  let from = 0
  let counted = 0
  let bytes = 0
  let hits = 0
  let misses = 0

  function clear(): void {
    kept.clear()
    order = []
    from = 0
    bytes = 0
  }
  function dropOldest(): void {
    const height = order[from++]!
    bytes -= sizeOf(kept.get(height)!)
    kept.delete(height)
    if (from * 2 < order.length) return
    order = order.slice(from)
    from = 0
  }

  return {
    slab: newSlab(SLAB_BYTES),
    get(height, unfolds) {
      const rows = unfolds === counted ? kept.get(height) : undefined
      if (rows === undefined) misses++
      else hits++
      return rows
    },
    keep(rows, unfolds) {
      const size = sizeOf(rows)
      // A view that is older than what is kept is void.
      if (size > limitBytes || unfolds < counted) return
      if (unfolds > counted) clear()
      counted = unfolds
      if (kept.has(rows.number)) return
      kept.set(rows.number, rows)
      order.push(rows.number)
      bytes += size
      while (bytes > limitBytes) dropOldest()
    },
    get stats() {
      return { hits, misses, blocks: kept.size, bytes }
    },
  }
}

const sizeOf = ({ packed }: LogRows): number => ENTRY_BYTES + packed.length
