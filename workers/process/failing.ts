/** How a node ends that cannot write any more: it says so first, and lets what is there be read for a while. */

import type { Health } from '../observe/health.ts'
import type { Report } from '../observe/reporter.ts'
import type { NodeContext } from './context.ts'

/** The first call counts: what fails after it is a consequence. `message` says what is wrong and what to do. */
export type Failing = (message: string) => void

/** In which a balancer takes the node out. No more than a few blocks come in this time: the views do not fill. */
const FAILURE_MS = 5_000

export function createFailing(
  { report, fail }: Pick<NodeContext, 'fail'> & { readonly report: Report },
  health: Pick<Health, 'failed' | 'isServing'>,
): Failing {
  let isFailing = false
  return (message) => {
    if (isFailing) return
    isFailing = true
    health.failed({ text: message, outside: 'it cannot write any more, and ends' })
    // A start that fails has nothing to show.
    if (!health.isServing) return fail(message)
    report('node_fails', { reason: message })
    setTimeout(() => fail(message), FAILURE_MS)
  }
}
