/** What has been taken for one request before all of it is known. */

export type Paid = {
  readonly points: number
  /** What the bytes and pieces are worth that came in: the request costs no less, whatever it is. */
  readonly least: number
}

export const UNPAID: Paid = { points: 0, least: 1 }

export const paidMore = (before: Paid, points: number): Paid => ({
  ...before,
  points: before.points + points,
})
