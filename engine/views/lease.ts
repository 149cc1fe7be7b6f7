/** Leases: one word per thread, the oldest record it reads; a thread may hold several (ADR 3). */
import { type Arena, FLOOR, HEAD, rowAt, SHOWN } from './arena.ts'
import { readRecord, type ViewRecord } from './record.ts'

export type Lease = {
  readonly record: ViewRecord
  readonly isHeld: () => boolean
  /** Again: nothing happens. */
  readonly release: () => void
}
export type Leases = {
  /** That this thread may read. */
  newest(): number
  lease(): Lease
  /** Of all, also of those that clients are not shown. */
  newestOfAll(): number
  /** Leases a record that this thread's front holds for it; undefined: gone. */
  adopt(record: number): Lease | undefined
}

/** Of a thread that no other one is told of. */
const FRONT = 0

/**
 * One per thread: it alone writes the row. `front`: the row of the thread that lends it records, its own where it is a front itself.
 * `seesAll`: also what clients are not shown yet, for threads that make the chain.
 * @throws {RangeError} where the recycler would read the front's row after this one: a view that passes from one to the other between two
 * looks would be seen in neither.
 */
export function openLeases(
  arena: Arena,
  thread: number,
  { front = FRONT, seesAll = false }: { readonly front?: number; readonly seesAll?: boolean } = {},
): Leases {
  const { words } = arena
  const top = seesAll ? HEAD : SHOWN
  if (!(thread >= 0 && thread < arena.threads))
    throw new RangeError(`views: thread ${thread} of ${arena.threads}`)
  if (!(front >= 0 && front <= thread))
    throw new RangeError(
      `views: the front of thread ${thread} is ${front}, expected 0 to ${thread}`,
    )
  const row = rowAt(thread)
  const counts = new Map<number, number>()

  function hold(number: number): Lease {
    counts.set(number, (counts.get(number) ?? 0) + 1)
    let isHeld = true
    const release = () => {
      if (!isHeld) return
      isHeld = false
      const left = counts.get(number)! - 1
      if (left > 0) counts.set(number, left)
      else {
        counts.delete(number)
        Atomics.store(words, row, leastOf(counts.keys()))
      }
    }
    try {
      return { record: readRecord(arena, number), isHeld: () => isHeld, release }
    } catch (error) {
      // Nobody holds it: a row that stayed at it would pin every page from there on.
      release()
      throw error
    }
  }
  /** The row covers the record, or is set to it and then no recycler has passed it. */
  function enter(number: number): boolean {
    const before = Atomics.load(words, row)
    if (before !== 0 && before <= number) return true
    // Negative while it may have to be taken back: such a row keeps pages, and covers no other thread.
    Atomics.store(words, row, -number)
    const isIn = mayEnter(number)
    Atomics.store(words, row, isIn ? number : before)
    return isIn
  }
  /** After the row is set: either the recycler sees the row, or we see its floor. */
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
      // Ends: the floor never passes what is shown, so it can overtake us only as often as the writer publishes in these few instructions.
      for (;;) {
        const number = Atomics.load(words, top)
        if (number === 0) throw new Error('views: nothing is published yet')
        if (enter(number)) return hold(number)
      }
    },
    adopt: (number) => (number > 0 && enter(number) ? hold(number) : undefined),
  }
}

/** 0: there is none. */
function leastOf(numbers: Iterable<number>): number {
  let least = 0
  for (const number of numbers) if (least === 0 || number < least) least = number
  return least
}
