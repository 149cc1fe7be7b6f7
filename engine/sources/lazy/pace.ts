/** Others that ask upstreams, paid for from the budget of the state: one service counts all of them. */
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import type { Pace } from '../upstream/pace.ts'
import type { Settled } from '../upstream/transport.ts'
import { type Budget, BudgetError, type Payer } from './budget.ts'

/** What a start reads of an upstream is hundreds of calls. Where too much waits already, that is said as the upstream would say it. */
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
      const answers: Settled[] = []
      for (let at = 0; at < calls.length; at += budget.batch) {
        const part = calls.slice(at, at + budget.batch)
        await pay(budget, part.length, payer)
        answers.push(...(await upstream.batch(part, options)))
      }
      return answers
    },
  }
}

const FULL_MS = 1_000

/** @throws {UpstreamError} too much waits already; the reason of the payer's signal */
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

/** Of heads and blocks, for all upstreams together: what is canonical goes first. */
export const paceOf = (budget: Budget): Pace => ({
  take: (calls, signal) => pay(budget, calls, { what: 'canonical', client: '', signal }),
})
