/** How a limit is seen acting: one row of the table that has one for each. */
import type { Limits } from '../../../rpc/seam/limits.ts'

export type Row = {
  /** Another one than the default. */
  readonly value: number
  /** What is seen of the smallest real part that reads the limit, with these limits, and all others as they are by default. */
  readonly see: (limits: Partial<Limits>) => Promise<unknown>
  /** What is seen with `value`; with the default it is something else. */
  readonly acts: unknown
}
export type Rows = Readonly<Record<keyof Limits, Row>>
export type Some = Partial<Rows>

export const row = (value: number, acts: unknown, see: Row['see']): Row => ({ value, acts, see })

/** The first of them; `else` when none came in time. */
export async function within<T>(ms: number, otherwise: T, ...events: Promise<T>[]): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<T>((resolve) => {
    timer = setTimeout(async () => {
      // After a stall timers come first: what happened meanwhile is seen before it is late.
      for (let turns = 0; turns < 5; turns++) await new Promise(setImmediate)
      resolve(otherwise)
    }, ms)
  })
  try {
    return await Promise.race([...events, late])
  } finally {
    clearTimeout(timer)
  }
}
