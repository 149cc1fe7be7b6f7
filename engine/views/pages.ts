/**
 * Pages of the arena: free, owned by a table, or retired with it. A retired table's pages are used again when no thread leases a record
 * that could reach it (ADR 3).
 */
import { type Arena, FLOOR, rowAt, SHOWN } from './arena.ts'

export type Pages = {
  /** True when `count` pages can be taken now; looks at the leases when too few are free. */
  reserve(count: number): boolean
  /** A page that was reserved. */
  take(): number
  /** From record `record` on no record reaches these pages. */
  retire(pages: readonly number[], record: number): void
  /** Looks at the leases and frees what no thread can read any more. Raises the floor. */
  recycle(): void
  /** Records below this one were read by no thread at the last look. The floor may be above one that is. */
  unreadBelow(): number
  /** Pages that can be had now. */
  freeCount(): number
  /** Pages of retired tables that some thread can still read. */
  heldCount(): number
  /** The oldest record a thread reads, or the newest that is shown when none does. */
  oldestLease(): number
}

export function openPages(arena: Arena): Pages {
  const { words, pageCount, pageWords } = arena
  const free: number[] = []
  const retired: { readonly pages: readonly number[]; readonly record: number }[] = []
  /** Pages below this one were used before: fresh ones are touched, and become resident, only when those do not suffice. */
  let fresh = 0
  let unreadBelow = 0
  const unused = () => free.length + pageCount - fresh
  function retiredCount(isCounted: (record: number) => boolean): number {
    let count = 0
    for (const { pages, record } of retired) if (isCounted(record)) count += pages.length
    return count
  }

  function recycle() {
    const floor = oldestLease()
    if (floor > Atomics.load(words, FLOOR)) Atomics.store(words, FLOOR, floor)
    // Read again after the floor is raised: a row set meanwhile either is seen here or its thread sees the floor. A front before
    // its workers: these take over a view while its row covers it, and between two looks it may pass from one to the other.
    unreadBelow = Math.min(floor, oldestLease())
    let kept = 0
    for (const each of retired)
      if (each.record <= unreadBelow) free.push(...each.pages)
      else retired[kept++] = each
    retired.length = kept
  }
  function oldestLease() {
    let oldest = Atomics.load(words, SHOWN)
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
    retire(pages, record) {
      retired.push({ pages, record })
    },
    recycle,
    unreadBelow: () => unreadBelow,
    freeCount() {
      const oldest = oldestLease()
      return unused() + retiredCount((record) => record <= oldest)
    },
    heldCount() {
      const oldest = oldestLease()
      return retiredCount((record) => record > oldest)
    },
    oldestLease,
  }
}
