/** Points taken for one request before its full cost is known. */

export type Prepaid = {
  readonly points: number
  /** Value of the received bytes and pieces in points. The request costs at least this much. */
  readonly min: number
}

export const NOTHING_PREPAID: Prepaid = { points: 0, min: 1 }

export const addPrepaid = (before: Prepaid, points: number): Prepaid => ({
  ...before,
  points: before.points + points,
})
