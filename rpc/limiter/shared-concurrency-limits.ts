/**
 * Concurrency limits that several front threads count together, exactly, in shared memory. Only the
 * owner writes the counts of a front thread. The end of a front thread therefore gives back its own
 * permits only.
 */

import type { ConcurrencyBounds, ConcurrencyLimit } from '../core/concurrency-limit.ts'
import {
  bytesOfRows,
  FIRST_WORD,
  HEAD_BYTES,
  OWN_WORDS,
  openLockOf,
  type RowShape,
  SharedRows,
  seed,
  threadOf,
} from './shared-rows.ts'

/** Kinds of resources that permits are counted for. */
export const CONCURRENCY_KINDS = [
  'filters',
  'holds',
  'seen',
  'flashblockWaits',
  'syncSends',
  'forwarding',
  'upstream',
  'connections',
  'sockets',
  'refusedSockets',
] as const
export type ConcurrencyKind = (typeof CONCURRENCY_KINDS)[number]
/** Opens a limit. Several limits of one kind share one count, each with its own bounds. */
export type OpenConcurrencyLimit = (
  kind: ConcurrencyKind,
  limits: ConcurrencyBounds,
) => ConcurrencyLimit

/** Plain data that can be sent to a thread. */
export type ConcurrencyMemory = {
  readonly buffer: SharedArrayBuffer
  /** Maximum number of clients with permits, over all kinds. */
  readonly rows: number
  readonly frontThreads: number
}

/** Index of a head word: rows may be empty, because a front thread has ended. */
const HAS_EMPTY = OWN_WORDS
/** Each kind has two seeds, so a client has a different key for each kind. */
const SEEDS_BYTES = 4 * 2 * CONCURRENCY_KINDS.length
const totalsBytes = (frontThreads: number) => 4 * CONCURRENCY_KINDS.length * frontThreads
const shapeOf = ({ rows, frontThreads }: Omit<ConcurrencyMemory, 'buffer'>): RowShape => ({
  max: rows,
  rowWords: FIRST_WORD + frontThreads,
})
const TOTALS_AT = HEAD_BYTES + SEEDS_BYTES
const rowsAt = (frontThreads: number) => TOTALS_AT + totalsBytes(frontThreads)

/**
 * Creates the shared memory: 4 bytes × (4 to 5 + front threads) for each row.
 * @param memory `rows` should be the sum of all kinds' totals, so that a row is always free
 */
export function createConcurrencyMemory({
  rows,
  frontThreads,
}: Omit<ConcurrencyMemory, 'buffer'>): ConcurrencyMemory {
  const buffer = new SharedArrayBuffer(
    rowsAt(frontThreads) + bytesOfRows(shapeOf({ rows, frontThreads })),
  )
  seed(new Int32Array(buffer, HEAD_BYTES, 2 * CONCURRENCY_KINDS.length))
  return { buffer, rows, frontThreads }
}

/**
 * Opens the limits of a front thread. A client without a row gets no permit if all rows are used.
 * @param frontThread number from 0; reusable after `releaseEndedConcurrency` for the previous
 *   thread
 */
export function openSharedConcurrencyLimits(
  memory: ConcurrencyMemory,
  frontThread: number,
): OpenConcurrencyLimit {
  if (!Number.isInteger(frontThread) || frontThread < 0 || frontThread >= memory.frontThreads)
    throw new Error(`front thread ${frontThread} of ${memory.frontThreads}`)
  return (kind, limits) =>
    new SharedConcurrencyLimit(memory, frontThread, {
      kind: CONCURRENCY_KINDS.indexOf(kind),
      limits,
    })
}

class SharedConcurrencyLimit implements ConcurrencyLimit {
  readonly #rows: ConcurrencyRows
  readonly #limits: ConcurrencyBounds

  constructor(
    memory: ConcurrencyMemory,
    frontThread: number,
    { kind, limits }: { readonly kind: number; readonly limits: ConcurrencyBounds },
  ) {
    this.#rows = new ConcurrencyRows(memory, frontThread, kind)
    this.#limits = limits
  }

  take(client: string): (() => void) | undefined {
    const rows = this.#rows
    const row = this.#taken(client)
    if (row === undefined) return undefined
    // The row stays the client's while any of its permits is taken.
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      rows.lock()
      try {
        rows.count(row, -1)
        if (rows.taken(row) === 0) rows.remove(row)
      } finally {
        rows.unlock()
      }
    }
  }
  #taken(client: string): number | undefined {
    const { perClient, total } = this.#limits
    const rows = this.#rows
    rows.lock()
    try {
      if (perClient <= 0 || rows.total >= total) return undefined
      const known = rows.find(client)
      if (known !== undefined && rows.taken(known) >= perClient) return undefined
      if (known === undefined && !rows.hasCapacity()) return undefined
      const row = known ?? rows.add(client)
      rows.count(row, 1)
      return row
    } finally {
      rows.unlock()
    }
  }

  isFull(client: string): boolean {
    const rows = this.#rows
    rows.lock()
    try {
      const row = rows.find(client)
      return (row === undefined ? 0 : rows.taken(row)) >= this.#limits.perClient
    } finally {
      rows.unlock()
    }
  }
  get total(): number {
    return this.#rows.total
  }
  get ownCount(): number {
    return this.#rows.ownCount
  }
}

/**
 * Rows of clients with one count per front thread, and the totals of each front thread and kind.
 */
class ConcurrencyRows extends SharedRows {
  readonly #totals: Int32Array
  readonly #frontThread: number
  readonly #frontThreads: number

  constructor(memory: ConcurrencyMemory, frontThread: number, kind: number) {
    const { buffer, frontThreads } = memory
    const seeds = new Int32Array(buffer, HEAD_BYTES + 4 * 2 * kind, 2)
    super(buffer, shapeOf(memory), {
      thread: threadOf(frontThread),
      rowsAt: rowsAt(frontThreads),
      seeds,
    })
    this.#totals = new Int32Array(buffer, TOTALS_AT + 4 * kind * frontThreads, frontThreads)
    this.#frontThread = frontThread
    this.#frontThreads = frontThreads
  }

  get total(): number {
    const totals = this.#totals
    let sum = 0
    for (let frontThread = 0; frontThread < this.#frontThreads; frontThread++)
      sum += totals[frontThread]!
    return sum
  }
  get ownCount(): number {
    return this.#totals[this.#frontThread]!
  }
  /** Returns the permits of a row in all front threads. */
  taken(row: number): number {
    const { words } = this
    const at = this.rowWords * row + FIRST_WORD
    let sum = 0
    for (let frontThread = 0; frontThread < this.#frontThreads; frontThread++)
      sum += words[at + frontThread]!
    return sum
  }
  /** Changes the permits of a row in this front thread. */
  count(row: number, by: 1 | -1): void {
    this.words[this.rowWords * row + FIRST_WORD + this.#frontThread]! += by
    this.#totals[this.#frontThread]! += by
  }

  /** Tells whether a row is free. Rows emptied by the end of a front thread are collected once. */
  hasCapacity(): boolean {
    if (this.isFull && Atomics.exchange(this.head, HAS_EMPTY, 0) !== 0) this.mend()
    return !this.isFull
  }
  /**
   * Rebuilds the index. A row with permits has a complete key that is not overwritten, so all other
   * rows are free.
   */
  mend(): void {
    this.rebuild((row) => this.taken(row) > 0)
  }
  /**
   * Clears the counts of this front thread without the lock. This is safe, because only this front
   * thread wrote them, and a row with counts is never reassigned.
   */
  forgetFrontThread(): void {
    const { words, rowWords } = this
    for (let at = FIRST_WORD + this.#frontThread; at < words.length; at += rowWords)
      Atomics.store(words, at, 0)
  }
}

/**
 * Gives back all permits of an ended front thread, before another thread gets its number. The
 * function does not wait for the lock, because its owner may have ended too and be reported later.
 * An interrupted change leaves only the thread's own counts incomplete. They are cleared, and the
 * used rows follow from the other threads' counts.
 */
export function releaseEndedConcurrency(memory: ConcurrencyMemory, frontThread: number): void {
  const { buffer, frontThreads } = memory
  const rows = new ConcurrencyRows(memory, frontThread, 0)
  const totals = new Int32Array(buffer, TOTALS_AT, CONCURRENCY_KINDS.length * frontThreads)
  rows.forgetFrontThread()
  for (let at = frontThread; at < totals.length; at += frontThreads) Atomics.store(totals, at, 0)
  const isMended = openLockOf(buffer, threadOf(frontThread), () => rows.mend())
  if (!isMended) Atomics.store(new Int32Array(buffer), HAS_EMPTY, 1)
}
