/** A row checks the effect of one limit. */
import type { Limits } from '../../../rpc/core/limits.ts'

export type Row = {
  /** The value differs from the default. */
  readonly value: number
  /** Observes the smallest real part that reads the limit; all other limits have their defaults. */
  readonly see: (limits: Partial<Limits>) => Promise<unknown>
  /** The observation with `value`; the default gives another one. */
  readonly acts: unknown
}
export type Rows = Readonly<Record<keyof Limits, Row>>
export type Some = Partial<Rows>

export const row = (value: number, acts: unknown, see: Row['see']): Row => ({ value, acts, see })

/** Gives the first of the events; `otherwise` when none came in time. */
export async function within<T>(ms: number, otherwise: T, ...events: Promise<T>[]): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<T>((resolve) => {
    timer = setTimeout(async () => {
      // After a stall timers fire first, so events of the meantime get a few turns.
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
