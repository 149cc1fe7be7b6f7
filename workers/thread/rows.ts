/** The rows of the lease table: one per thread that reads views. */
import type { Database } from '../../engine/storage/database/types.ts'
import { clearThread } from '../../engine/views/arena.ts'
import type { SharedViews } from '../../engine/views/types.ts'

/** Row 0 is the front's by the views' own rule. */
export const FRONT_ROW = 0
export const WRITER_ROW = 1
/** Of where blocks come from. */
export const SOURCE_ROW = 2
/** The pool's rows begin here. */
export const POOL_ROW = 3

/** A worker may be replaced before the one it replaces has ended: twice as many rows as workers. */
export const poolRows = (threads: number): number => 2 * threads
export const allRows = (threads: number): number => POOL_ROW + poolRows(threads)

export type Claims = Int32Array<SharedArrayBuffer>
/** One word per row of the pool: the thread that has it, 0 when free. */
export const createClaims = (threads: number): Claims =>
  new Int32Array(new SharedArrayBuffer(4 * poolRows(threads)))

/** A worker takes a row for as long as it lives. @throws {Error} when all are taken. */
export function claimRow(claims: Claims, thread: number): number {
  for (let index = 0; index < claims.length; index++)
    if (Atomics.compareExchange(claims, index, 0, thread) === 0) return POOL_ROW + index
  throw new Error(`no row of ${claims.length} is free for a pool thread`)
}

/**
 * Takes back what a pool thread that has exited held: its place at the database's gate, its leases, its row. Not before the exit: until
 * then it may read. False: it had claimed no row yet.
 */
export function releaseEnded(
  from: {
    readonly database: Pick<Database, 'threadEnded'>
    readonly views: SharedViews
    readonly claims: Claims
  },
  thread: number,
): boolean {
  from.database.threadEnded(thread)
  const index = from.claims.indexOf(thread)
  if (index < 0) return false
  clearThread(from.views, POOL_ROW + index)
  Atomics.store(from.claims, index, 0)
  return true
}
