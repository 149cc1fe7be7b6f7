/** What has been taken for one request before all of it is known. */

export type Paid = {
  readonly points: number
  /** Those of them that were taken in the newest second of these: only they can come back. */
  readonly last: number
  /** The name of that second, from the charge. */
  readonly second: number
  /** What the bytes and pieces are worth that came in: the request costs no less, whatever it is. */
  readonly least: number
}

export const UNPAID: Paid = { points: 0, last: 0, second: 0, least: 1 }

export function paidMore(before: Paid, points: number, second: number): Paid {
  const last = before.second === second ? before.last + points : points
  return { ...before, points: before.points + points, last, second }
}
