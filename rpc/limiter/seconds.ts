/** The seconds that an address is counted by: they follow each other from its first request, as long as it is remembered. */
import { OVERFLOW_ROW, type Rows, type Second } from './memory.ts'

const WINDOW_MS = 1_000
/** An address that was silent for longer begins its seconds anew. */
const KEPT_MS = 10_000

export interface Seconds {
  /** The row of an address, in its second of now. @param limit the points of one that begins */
  of(key: string, limit: number): number
  /** undefined: it has no second now. */
  known(key: string): number | undefined
}

/**
 * The second of each address. Seconds follow each other without a gap as long as the address is remembered, so that a request late in
 * one second does not shift the next. Where all rows are taken by addresses in their seconds, others share one. Works on locked rows.
 */
export function createSeconds(rows: Rows, clock: () => number): Seconds {
  /** The clock went back. */
  const isAhead = (end: number, now: number) => end > now + WINDOW_MS
  /** The time for which a thread stood still is nobody's silence. */
  const isForgotten = (row: number, now: number) =>
    rows.end(row) <= now - KEPT_MS - (rows.stalledMs - rows.stallOf(row)) ||
    isAhead(rows.end(row), now)
  function isNow(row: number, now: number): boolean {
    const end = rows.end(row)
    return end > now && !isAhead(end, now)
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
      begin(rows, OVERFLOW_ROW, { limit, end, owed: rows.owed(OVERFLOW_ROW) })
    }
    return OVERFLOW_ROW
  }
  function goOn(row: number, limit: number, now: number): number {
    const silentMs = now - rows.end(row)
    // What was not asked for paid as well.
    const missed = Math.floor(silentMs / WINDOW_MS)
    const owed = Math.max(0, rows.owed(row) - missed * limit)
    begin(rows, row, { limit, end: now + WINDOW_MS - (silentMs % WINDOW_MS), owed })
    rows.toNewest(row)
    return row
  }

  /** For one more, at the cost of the oldest if that is over. */
  function hasRoom(now: number): boolean {
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
      begin(rows, row, { limit, end: now + WINDOW_MS, owed: 0 })
      return row
    },
    known(key) {
      const now = clock()
      const row = rows.find(key) ?? (hasRoom(now) ? undefined : OVERFLOW_ROW)
      return row !== undefined && isNow(row, now) ? row : undefined
    },
  }
}

/** Debts are paid first. */
function begin(rows: Rows, row: number, { owed, ...second }: Omit<Second, 'used'>): void {
  const due = Math.min(owed, second.limit)
  rows.begin(row, { ...second, used: due, owed: owed - due })
}
