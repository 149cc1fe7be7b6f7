/**
 * Pages of the arena are free, owned by a diff layer, or retired with their layer (ADR 3).
 * Retired pages are reused when no thread leases a snapshot that could reach them.
 */
import { type Arena, FLOOR, rowAt, VISIBLE } from './arena.ts'

export type Pages = {
  /** Returns whether `count` pages can be taken now; checks the leases when too few are free. */
  reserve(count: number): boolean
  /** Takes a page that was reserved. */
  take(): number
  /** Retires pages that no snapshot from this number on reaches. */
  retire(pages: readonly number[], snapshot: number): void
  /** Checks the leases, raises the floor and frees the pages that no thread can read any more. */
  recycle(): void
  /** No thread read a snapshot below this number at the last check. The floor can be higher. */
  unreadBelow(): number
  freeCount(): number
  /** Number of pages of retired diff layers that some thread can still read. */
  pinnedCount(): number
  /** The oldest snapshot that a thread reads, or the newest visible one without any lease. */
  oldestLease(): number
}

export function openPages(arena: Arena): Pages {
  const { words, pageCount, pageWords } = arena
  const free: number[] = []
  const retired: { readonly pages: readonly number[]; readonly snapshot: number }[] = []
  /**
   * Pages from this one on were never used. They stay non-resident until the used pages do not
   * suffice.
   */
  let fresh = 0
  let unreadBelow = 0
  const unused = () => free.length + pageCount - fresh
  function retiredCount(isCounted: (snapshot: number) => boolean): number {
    let count = 0
    for (const { pages, snapshot } of retired) if (isCounted(snapshot)) count += pages.length
    return count
  }

  function recycle() {
    const floor = oldestLease()
    if (floor > Atomics.load(words, FLOOR)) Atomics.store(words, FLOOR, floor)
    /*
     * The leases are read again after the floor is raised: either a new row is seen, or its thread
     * sees the floor. Fronts are read before their workers, because a worker takes over a view
     * while the front's row covers it.
     */
    unreadBelow = Math.min(floor, oldestLease())
    let retained = 0
    for (const each of retired)
      if (each.snapshot <= unreadBelow) free.push(...each.pages)
      else retired[retained++] = each
    retired.length = retained
  }
  function oldestLease() {
    let oldest = Atomics.load(words, VISIBLE)
    for (let thread = 0; thread < arena.threads; thread++) {
      const row = Math.abs(Atomics.load(words, rowAt(thread)))
      if (row !== 0 && row < oldest) oldest = row
    }
    return oldest
  }
  return {
    reserve(count) {
      if (free.length < count && retired.length > 0) recycle()
      return unused() >= count
    },
    take() {
      const page = free.pop()
      if (page !== undefined) return page
      if (fresh === pageCount) throw new Error('views: a page was taken that was not reserved')
      return arena.pages + pageWords * fresh++
    },
    retire(pages, snapshot) {
      retired.push({ pages, snapshot })
    },
    recycle,
    unreadBelow: () => unreadBelow,
    freeCount() {
      const oldest = oldestLease()
      return unused() + retiredCount((snapshot) => snapshot <= oldest)
    },
    pinnedCount() {
      const oldest = oldestLease()
      return retiredCount((snapshot) => snapshot > oldest)
    },
    oldestLease,
  }
}
