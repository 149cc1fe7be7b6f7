/**
 * Seconds of an address: they follow each other without a gap from its first request, while its row
 * is retained.
 */
import { OVERFLOW_ROW, type Rows, type Second } from './memory.ts'

const WINDOW_MS = 1_000
/** An address that was silent for longer starts new seconds. */
const RETENTION_MS = 10_000

export interface Seconds {
  /**
   * Returns the row of an address in its current second.
   * @param limit points of a second that starts
   */
  of(key: string, limit: number): number
  /** Returns the row of an address. undefined: it has no current second. */
  known(key: string): number | undefined
}

/**
 * Manages the seconds of addresses on locked rows. Seconds have no gaps, so that a request late in
 * one second does not shift the next. Addresses share one row when all rows are in their seconds.
 */
export function createSeconds(rows: Rows, clock: () => number): Seconds {
  /** Tells whether a second's end is too far ahead, because the clock was set back. */
  const isInFuture = (end: number, now: number) => end > now + WINDOW_MS
  /** Tells whether a row has expired, without the time in which a thread stood still. */
  const isForgotten = (row: number, now: number) =>
    rows.end(row) <= now - RETENTION_MS - (rows.stalledMs - rows.stallOf(row)) ||
    isInFuture(rows.end(row), now)
  function isNow(row: number, now: number): boolean {
    const end = rows.end(row)
    return end > now && !isInFuture(end, now)
  }

  function forget(now: number, isForOneMore: boolean): void {
    for (let oldest = rows.oldest; oldest !== undefined; oldest = rows.oldest) {
      const isOver = isForOneMore && rows.isFull && rows.end(oldest) <= now
      if (!isForgotten(oldest, now) && !isOver) return
      rows.remove(oldest)
    }
  }
  function shared(limit: number, now: number): number {
    if (!isNow(OVERFLOW_ROW, now)) {
      rows.setStall(OVERFLOW_ROW, rows.stalledMs)
      const end = now + WINDOW_MS
      start(rows, OVERFLOW_ROW, { limit, end, owed: rows.owed(OVERFLOW_ROW) })
    }
    return OVERFLOW_ROW
  }
  function goOn(row: number, limit: number, now: number): number {
    const silentMs = now - rows.end(row)
    // Each skipped second pays debt as well.
    const missed = Math.floor(silentMs / WINDOW_MS)
    const owed = Math.max(0, rows.owed(row) - missed * limit)
    start(rows, row, { limit, end: now + WINDOW_MS - (silentMs % WINDOW_MS), owed })
    rows.toNewest(row)
    return row
  }

  /** Tells whether a row is free or the oldest can be replaced. */
  function hasCapacity(now: number): boolean {
    const { oldest } = rows
    return !rows.isFull || oldest === undefined || rows.end(oldest) <= now
  }

  return {
    of(key, limit) {
      const now = clock()
      const known = rows.find(key)
      if (known !== undefined) {
        if (isNow(known, now)) return known
        if (!isForgotten(known, now)) {
          goOn(known, limit, now)
          forget(now, false)
          return known
        }
        rows.remove(known)
      }
      forget(now, true)
      if (rows.isFull) return shared(limit, now)
      const row = rows.add(key)
      rows.setStall(row, rows.stalledMs)
      start(rows, row, { limit, end: now + WINDOW_MS, owed: 0 })
      return row
    },
    known(key) {
      const now = clock()
      const row = rows.find(key) ?? (hasCapacity(now) ? undefined : OVERFLOW_ROW)
      return row !== undefined && isNow(row, now) ? row : undefined
    },
  }
}

/** Starts a second, which pays debts first. */
function start(rows: Rows, row: number, { owed, ...second }: Omit<Second, 'used'>): void {
  const due = Math.min(owed, second.limit)
  rows.start(row, { ...second, used: due, owed: owed - due })
}
