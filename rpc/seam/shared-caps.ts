/**
 * Caps that several front threads, cells, count together: exact over all of them, in memory that they share. Each cell has counts of its
 * own, which nobody else writes while it lives, so that its end gives back what it held, and nothing of the others.
 */
import type { CapLimits, Caps } from './caps.ts'
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

/** What places are counted of. */
export const CAP_KINDS = [
  'filters',
  'holds',
  'shown',
  'places',
  'syncSends',
  'legacy',
  'upstream',
  'connections',
  'sockets',
  'refusedSockets',
] as const
export type CapKind = (typeof CAP_KINDS)[number]
/** Who opens caps twice for one kind counts one thing, under the limits of each. */
export type OpenCaps = (kind: CapKind, limits: CapLimits) => Caps

/** Plain data: crosses a thread. */
export type CapsMemory = {
  readonly buffer: SharedArrayBuffer
  /** Clients of a kind that may hold something at a time, of all kinds together. */
  readonly rows: number
  readonly cells: number
}

/** Of the head's: rows may be empty, because a cell has ended. */
const HAS_EMPTY = OWN_WORDS
/** Of each kind two seeds: a client has another key for each. */
const SEEDS_BYTES = 4 * 2 * CAP_KINDS.length
const totalsBytes = (cells: number) => 4 * CAP_KINDS.length * cells
const shapeOf = ({ rows, cells }: Omit<CapsMemory, 'buffer'>): RowShape => ({
  most: rows,
  rowWords: FIRST_WORD + cells,
})
const TOTALS_AT = HEAD_BYTES + SEEDS_BYTES
const rowsAt = (cells: number) => TOTALS_AT + totalsBytes(cells)

/** @param rows as many as the totals of all kinds together, and none is ever missing; 4 bytes × (4 to 5 + cells) each */
export function createCapsMemory({ rows, cells }: Omit<CapsMemory, 'buffer'>): CapsMemory {
  const buffer = new SharedArrayBuffer(rowsAt(cells) + bytesOfRows(shapeOf({ rows, cells })))
  seed(new Int32Array(buffer, HEAD_BYTES, 2 * CAP_KINDS.length))
  return { buffer, rows, cells }
}

/**
 * Where no row is free, nothing is given.
 * @param cell from 0; one thread at a time, from `capsOfEnded` of the one before it on
 */
export function openSharedCaps(memory: CapsMemory, cell: number): OpenCaps {
  if (!Number.isInteger(cell) || cell < 0 || cell >= memory.cells)
    throw new Error(`cell ${cell} of ${memory.cells}`)
  return (kind, limits) => new SharedCaps(memory, cell, { kind: CAP_KINDS.indexOf(kind), limits })
}

class SharedCaps implements Caps {
  readonly #rows: CapRows
  readonly #limits: CapLimits

  constructor(
    memory: CapsMemory,
    cell: number,
    { kind, limits }: { readonly kind: number; readonly limits: CapLimits },
  ) {
    this.#rows = new CapRows(memory, cell, kind)
    this.#limits = limits
  }

  take(client: string): (() => void) | undefined {
    const rows = this.#rows
    const row = this.#taken(client)
    if (row === undefined) return undefined
    // Nobody else gets the row while something of it is held.
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      rows.lock()
      try {
        rows.count(row, -1)
        if (rows.held(row) === 0) rows.remove(row)
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
      if (known !== undefined && rows.held(known) >= perClient) return undefined
      if (known === undefined && !rows.hasRoom()) return undefined
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
      return (row === undefined ? 0 : rows.held(row)) >= this.#limits.perClient
    } finally {
      rows.unlock()
    }
  }
  get total(): number {
    return this.#rows.total
  }
  get here(): number {
    return this.#rows.here
  }
}

/** Rows of clients, each with a count for each cell, and what each cell holds of each kind. */
class CapRows extends SharedRows {
  readonly #totals: Int32Array
  readonly #cell: number
  readonly #cells: number

  constructor(memory: CapsMemory, cell: number, kind: number) {
    const { buffer, cells } = memory
    const seeds = new Int32Array(buffer, HEAD_BYTES + 4 * 2 * kind, 2)
    super(buffer, shapeOf(memory), { thread: threadOf(cell), rowsAt: rowsAt(cells), seeds })
    this.#totals = new Int32Array(buffer, TOTALS_AT + 4 * kind * cells, cells)
    this.#cell = cell
    this.#cells = cells
  }

  get total(): number {
    const totals = this.#totals
    let sum = 0
    for (let cell = 0; cell < this.#cells; cell++) sum += totals[cell]!
    return sum
  }
  get here(): number {
    return this.#totals[this.#cell]!
  }
  /** In all cells. */
  held(row: number): number {
    const { words } = this
    const at = this.rowWords * row + FIRST_WORD
    let sum = 0
    for (let cell = 0; cell < this.#cells; cell++) sum += words[at + cell]!
    return sum
  }
  /** In this cell. */
  count(row: number, by: 1 | -1): void {
    this.words[this.rowWords * row + FIRST_WORD + this.#cell]! += by
    this.#totals[this.#cell]! += by
  }

  /** For one more. Rows that an ended cell has left empty are looked for once after its end. */
  hasRoom(): boolean {
    if (this.isFull && Atomics.exchange(this.head, HAS_EMPTY, 0) !== 0) this.mend()
    return !this.isFull
  }
  /** Rows of which something is held say whose they are, and nobody writes that: all the others are free, whatever of them was half done. */
  mend(): void {
    this.rebuild((row) => this.held(row) > 0)
  }
  /** Without the lock: nobody else writes them, and where one of them is not 0 its row is nobody else's. */
  forgetCell(): void {
    const { words, rowWords } = this
    for (let at = FIRST_WORD + this.#cell; at < words.length; at += rowWords)
      Atomics.store(words, at, 0)
  }
}

/**
 * After the exit of a cell's thread, and before another one has its number: gives back all that it held. It waits for nobody, since who
 * has the lock may have ended as well and be reported later. Had the cell been ended while it had the lock, its own counts alone may be
 * half of something: these go, those of the others are whole, and which rows are in use follows from them.
 */
export function capsOfEnded(memory: CapsMemory, cell: number): void {
  const { buffer, cells } = memory
  const rows = new CapRows(memory, cell, 0)
  const totals = new Int32Array(buffer, TOTALS_AT, CAP_KINDS.length * cells)
  rows.forgetCell()
  for (let at = cell; at < totals.length; at += cells) Atomics.store(totals, at, 0)
  const isMended = openLockOf(buffer, threadOf(cell), () => rows.mend())
  if (!isMended) Atomics.store(new Int32Array(buffer), HAS_EMPTY, 1)
}
