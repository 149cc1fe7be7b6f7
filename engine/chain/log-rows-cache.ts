/**
 * Logs of persisted blocks that a thread caches for its next searches. They stay valid until an
 * unwind.
 */
import { newSlab, type Slab } from '../primitives/bytes.ts'
import type { LogRows } from './types.ts'

/** The cache of one thread, whose searches run one after the other. */
export interface LogRowsCache {
  /**
   * Returns the rows; undefined when they are not cached, or when the view has another count of
   * unwinds.
   */
  get(height: number, unwinds: number): LogRows | undefined
  /** Caches rows that were read in a view with this count of unwinds and are still valid. */
  set(rows: LogRows, unwinds: number): void
  readonly slab: Slab
  readonly stats: {
    readonly hits: number
    readonly misses: number
    readonly blocks: number
    readonly bytes: number
  }
}

/** Overhead of an entry in addition to its bytes: its objects and its map entry. */
const ENTRY_BYTES = 400
/** A slab is small against the limit, because one cached entry retains its whole slab. */
const SLAB_BYTES = 65_536

/** @param limitBytes the oldest entries are dropped beyond this size; 0 caches nothing */
export function createLogRowsCache(limitBytes: number): LogRowsCache {
  const cached = new Map<number, LogRows>()
  /**
   * Heights from `from` on, oldest first. A map would find its oldest key by skipping all deleted
   * ones.
   */
  let order: number[] = []
  let from = 0
  let counted = 0
  let bytes = 0
  let hits = 0
  let misses = 0

  function clear(): void {
    cached.clear()
    order = []
    from = 0
    bytes = 0
  }
  function dropOldest(): void {
    const height = order[from++]!
    bytes -= sizeOf(cached.get(height)!)
    cached.delete(height)
    if (from * 2 < order.length) return
    order = order.slice(from)
    from = 0
  }

  return {
    slab: newSlab(SLAB_BYTES),
    get(height, unwinds) {
      const rows = unwinds === counted ? cached.get(height) : undefined
      if (rows === undefined) misses++
      else hits++
      return rows
    },
    set(rows, unwinds) {
      const size = sizeOf(rows)
      // A view that is older than the cached rows is void.
      if (size > limitBytes || unwinds < counted) return
      if (unwinds > counted) clear()
      counted = unwinds
      if (cached.has(rows.number)) return
      cached.set(rows.number, rows)
      order.push(rows.number)
      bytes += size
      while (bytes > limitBytes) dropOldest()
    },
    get stats() {
      return { hits, misses, blocks: cached.size, bytes }
    },
  }
}

const sizeOf = ({ packed }: LogRows): number => ENTRY_BYTES + packed.length
