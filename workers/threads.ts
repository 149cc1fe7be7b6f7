/** The rows of the lease table: one per thread that reads views. */

/** Row 0 is the front's by the views' own rule. */
export const FRONT_ROW = 0
export const WRITER_ROW = 1
export const SEQUENCER_ROW = 2
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

/** The row of a thread that has ended; `free` gives it to the next. */
export function rowOfEnded(
  claims: Claims,
  thread: number,
): { readonly row: number; free(): void } | undefined {
  const index = claims.indexOf(thread)
  if (index < 0) return undefined
  return { row: POOL_ROW + index, free: () => Atomics.store(claims, index, 0) }
}
