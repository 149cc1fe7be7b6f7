/** Price of a call in points of its caller. */

import type { Limits } from '../core/limits.ts'
import type { LimitBy } from '../limiter/points.ts'
import type { Method, Methods } from './method.ts'

export type Price = (
  method: Pick<Method, 'cost' | 'weight'>,
  params: readonly unknown[],
  limits: Limits,
) => number

const PRICES: Readonly<Record<LimitBy, Price>> = {
  request: ({ cost }, params, limits) => cost(params, limits),
  cost: ({ cost, weight }, params, limits) => Math.max(weight, cost(params, limits)),
}

export const priceBy = (limitBy: LimitBy): Price => PRICES[limitBy]

/** Lists the minimum price of each method where it exceeds one point. */
export const priceList = (
  methods: Methods,
  price: Price,
  limits: Limits,
): Readonly<Record<string, number>> =>
  Object.fromEntries(
    [...methods].flatMap(([name, method]) => {
      const points = price(method, [], limits)
      return points > 1 ? [[name, points]] : []
    }),
  )
