/**
 * Other users of upstreams draw from the budget of state requests, because a service counts all of
 * them together.
 */

import type { Pace } from '../upstream/call-rate.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import type { Settled } from '../upstream/messages.ts'
import { type Budget, BudgetError, type Payer } from './budget.ts'

/**
 * Wraps an upstream so that its calls draw from the budget. A start makes hundreds of calls. A full
 * budget fails like the upstream's own limit.
 */
export function paced(upstream: Upstream, budget: Budget, payer: Payer): Upstream {
  return {
    ...upstream,
    name: upstream.name,
    watchHeads: upstream.watchHeads,
    get isWatching() {
      return upstream.isWatching
    },
    get lostConnections() {
      return upstream.lostConnections
    },
    async call(method, params, options) {
      await pay(budget, 1, payer)
      return upstream.call(method, params, options)
    },
    async batch(calls, options) {
      const responses: Settled[] = []
      for (let at = 0; at < calls.length; at += budget.batch) {
        const part = calls.slice(at, at + budget.batch)
        await pay(budget, part.length, payer)
        responses.push(...(await upstream.batch(part, options)))
      }
      return responses
    },
  }
}

const FULL_MS = 1_000

/** @throws {UpstreamError} when too many requests wait; the reason of the payer's signal */
export async function pay(budget: Budget, calls: number, payer: Payer): Promise<void> {
  try {
    for (let left = calls; left > 0; left -= budget.batch)
      await budget.take(Math.min(left, budget.batch), payer)
  } catch (error) {
    if (!(error instanceof BudgetError)) throw error
    throw new UpstreamError('limited', error.message, {
      retryAfterMs: FULL_MS,
      outside: error.message,
    })
  }
}

/**
 * Makes the pace of heads and blocks for all upstreams together; canonical blocks have priority.
 */
export const paceOf = (budget: Budget): Pace => ({
  take: (calls, signal) => pay(budget, calls, { what: 'canonical', client: '', signal }),
})
