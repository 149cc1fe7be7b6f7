/**
 * Leases: one word per thread names the oldest snapshot that the thread reads (ADR 3). A thread can
 * have several leases.
 */
import { type Arena, FLOOR, HEAD, rowAt, VISIBLE } from './arena.ts'
import { type ChainSnapshot, readSnapshot } from './chain-snapshot.ts'

export type Lease = {
  readonly snapshot: ChainSnapshot
  readonly isLeased: () => boolean
  /** Ends the lease; a second call does nothing. */
  readonly release: () => void
}
export type Leases = {
  /** Returns the newest snapshot that this thread may read. */
  newest(): number
  lease(): Lease
  /** Returns the newest snapshot of all, whether clients see it or not. */
  newestOfAll(): number
  /**
   * Leases a snapshot that this thread's front already leases; undefined when the snapshot is gone.
   */
  adopt(snapshot: number): Lease | undefined
}

/** Front of a thread that names no other one. */
const FRONT = 0

/**
 * Opens the leases of a thread; no other thread writes its row.
 * @param options `front` is the thread that lends its snapshots; a front names itself. `seesAll`
 * includes snapshots that clients do not see yet, for threads that make the chain.
 * @throws {RangeError} when `front` is above `thread`. The recycler reads rows in order and could
 * miss a view that moves from front to thread.
 */
export function openLeases(
  arena: Arena,
  thread: number,
  { front = FRONT, seesAll = false }: { readonly front?: number; readonly seesAll?: boolean } = {},
): Leases {
  const { words } = arena
  const top = seesAll ? HEAD : VISIBLE
  if (!(thread >= 0 && thread < arena.threads))
    throw new RangeError(`views: thread ${thread} of ${arena.threads}`)
  if (!(front >= 0 && front <= thread))
    throw new RangeError(
      `views: the front of thread ${thread} is ${front}, expected 0 to ${thread}`,
    )
  const row = rowAt(thread)
  const counts = new Map<number, number>()

  function pin(number: number): Lease {
    counts.set(number, (counts.get(number) ?? 0) + 1)
    let isLeased = true
    const release = () => {
      if (!isLeased) return
      isLeased = false
      const left = counts.get(number)! - 1
      if (left > 0) counts.set(number, left)
      else {
        counts.delete(number)
        Atomics.store(words, row, minOf(counts.keys()))
      }
    }
    try {
      return { snapshot: readSnapshot(arena, number), isLeased: () => isLeased, release }
    } catch (error) {
      // The row is cleared, because a row that stays set pins every later page.
      release()
      throw error
    }
  }
  /** Sets the row unless it covers the snapshot; false when the recycler has passed. */
  function enter(number: number): boolean {
    const before = Atomics.load(words, row)
    if (before !== 0 && before <= number) return true
    // The row is negative until the check: it protects pages, but covers no thread.
    Atomics.store(words, row, -number)
    const isIn = mayEnter(number)
    Atomics.store(words, row, isIn ? number : before)
    return isIn
  }
  /** The row is set before: the recycler sees the row, or this thread the new floor. */
  function mayEnter(number: number): boolean {
    if (Atomics.load(words, FLOOR) <= number) return true
    if (thread !== front) {
      const covered = Atomics.load(words, rowAt(front))
      if (covered > 0 && covered <= number) return true
    }
    return false
  }
  return {
    newest: () => Atomics.load(words, top),
    newestOfAll: () => Atomics.load(words, HEAD),
    lease() {
      // The floor never passes the visible snapshot, so a retry means a publish meanwhile.
      for (;;) {
        const number = Atomics.load(words, top)
        if (number === 0) throw new Error('views: nothing is published yet')
        if (enter(number)) return pin(number)
      }
    },
    adopt: (number) => (number > 0 && enter(number) ? pin(number) : undefined),
  }
}

/** Returns the smallest number, or 0 for an empty list. */
function minOf(numbers: Iterable<number>): number {
  let min = 0
  for (const number of numbers) if (min === 0 || number < min) min = number
  return min
}
