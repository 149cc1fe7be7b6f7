/** What a call takes from the points of its caller. */
import type { LimitBy } from '../limiter/points.ts'
import type { Limits } from '../seam/limits.ts'
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

/** The least that a call of each method takes, where that is more than a point. */
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
