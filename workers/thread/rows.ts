/** The rows of the lease table: one for each thread that reads views. */
import type { Database } from '../../engine/storage/database/types.ts'
import { clearThread } from '../../engine/views/arena.ts'
import type { SharedViews } from '../../engine/views/types.ts'

/** The views require row 0 for the main thread's front. */
export const FRONT_ROW = 0
export const WRITER_ROW = 1
/** Row of the thread from which blocks come. */
export const SOURCE_ROW = 2
/** First row of the main thread's pool; the rows of the front threads follow it. */
export const POOL_ROW = 3

/**
 * Distribution of the threads that run calls: `own` of the main thread, `each` of every one of
 * `frontThreads`.
 */
export type Division = {
  readonly own: number
  readonly frontThreads: number
  readonly each: number
}

/**
 * With front threads, the main thread runs the node's own calls and heavy work on transactions.
 * Long calls leave one of two threads to others.
 */
const MIN_THREADS = 2

/**
 * Divides the pool's threads.
 * @param poolThreads the total, which the sum may exceed when there are front threads
 * @param fronts 1 means that the main thread is the front
 */
export function divide(poolThreads: number, fronts: number): Division {
  if (fronts === 1) return { own: poolThreads, frontThreads: 0, each: 0 }
  const each = Math.floor((poolThreads - MIN_THREADS) / fronts)
  return { own: MIN_THREADS, frontThreads: fronts, each: Math.max(MIN_THREADS, each) }
}
export const allThreads = ({ own, frontThreads, each }: Division): number =>
  own + frontThreads * each

/**
 * A worker may be replaced before its predecessor has ended, so there are twice as many rows as
 * workers.
 */
const poolRows = (threads: number): number => 2 * threads
/** A front thread has its own row first, then those of its workers. */
const frontThreadRows = ({ each }: Division): number => 1 + poolRows(each)
export const allRows = (division: Division): number =>
  POOL_ROW + poolRows(division.own) + division.frontThreads * frontThreadRows(division)
/**
 * Returns the lease row of a front thread.
 * @param frontThread counted from 0
 */
export const frontThreadRow = (division: Division, frontThread: number): number =>
  POOL_ROW + poolRows(division.own) + frontThread * frontThreadRows(division)

/**
 * One word for each row of a pool: the thread that has the row, or 0. `first` is the row of the
 * first word.
 */
export type Claims = { readonly words: Int32Array<SharedArrayBuffer>; readonly first: number }
export const createClaims = (threads: number, first = POOL_ROW): Claims => ({
  words: new Int32Array(new SharedArrayBuffer(4 * poolRows(threads))),
  first,
})

/**
 * Claims a row for a worker until its exit.
 * @throws {Error} when all rows are taken
 */
export function claimRow({ words, first }: Claims, thread: number): number {
  for (let index = 0; index < words.length; index++)
    if (Atomics.compareExchange(words, index, 0, thread) === 0) return first + index
  throw new Error(`no row of ${words.length} is free for a pool thread`)
}

/**
 * Releases what an exited pool thread had: its read barrier entry, leases and row. It must not run
 * before the exit, because the thread may read until then.
 * @returns false when the thread had claimed no row
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
