/** The rows of the lease table: one per thread that reads views. */
import type { Database } from '../../engine/storage/database/types.ts'
import { clearThread } from '../../engine/views/arena.ts'
import type { SharedViews } from '../../engine/views/types.ts'

/** Row 0 is that of the main thread's front by the views' own rule. */
export const FRONT_ROW = 0
export const WRITER_ROW = 1
/** Of where blocks come from. */
export const SOURCE_ROW = 2
/** The rows of the main thread's pool begin here, those of the cells after them. */
export const POOL_ROW = 3

/** How the threads that run calls are divided: `own` has the main thread, `each` of `cells` has so many. */
export type Division = { readonly own: number; readonly cells: number; readonly each: number }

/** With cells the main thread runs what is the node's own, and what is heavy about transactions; long calls leave one of two to the others. */
const LEAST_THREADS = 2

/** @param fronts 1: the main thread is the front. With more the sum may be larger than `poolThreads`, which is a total */
export function divide(poolThreads: number, fronts: number): Division {
  if (fronts === 1) return { own: poolThreads, cells: 0, each: 0 }
  const each = Math.floor((poolThreads - LEAST_THREADS) / fronts)
  return { own: LEAST_THREADS, cells: fronts, each: Math.max(LEAST_THREADS, each) }
}
export const allThreads = ({ own, cells, each }: Division): number => own + cells * each

/** A worker may be replaced before the one it replaces has ended: twice as many rows as workers. */
const poolRows = (threads: number): number => 2 * threads
/** A cell reads, and each of its workers: its own row stands first. */
const cellRows = ({ each }: Division): number => 1 + poolRows(each)
export const allRows = (division: Division): number =>
  POOL_ROW + poolRows(division.own) + division.cells * cellRows(division)
/** @param cell from 0 */
export const cellRow = (division: Division, cell: number): number =>
  POOL_ROW + poolRows(division.own) + cell * cellRows(division)

/** One word per row of a pool: the thread that has it, 0 when free. `first`: the row of the first word. */
export type Claims = { readonly words: Int32Array<SharedArrayBuffer>; readonly first: number }
export const createClaims = (threads: number, first = POOL_ROW): Claims => ({
  words: new Int32Array(new SharedArrayBuffer(4 * poolRows(threads))),
  first,
})

/** A worker takes a row for as long as it lives. @throws {Error} when all are taken. */
export function claimRow({ words, first }: Claims, thread: number): number {
  for (let index = 0; index < words.length; index++)
    if (Atomics.compareExchange(words, index, 0, thread) === 0) return first + index
  throw new Error(`no row of ${words.length} is free for a pool thread`)
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
  const { words, first } = from.claims
  const index = words.indexOf(thread)
  if (index < 0) return false
  clearThread(from.views, first + index)
  Atomics.store(words, index, 0)
  return true
}
