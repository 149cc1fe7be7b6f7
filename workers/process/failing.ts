/**
 * Ends a node that can no longer write: it reports the failure, and serves reads for a short time.
 */

import type { Health } from '../observe/health.ts'
import type { Report } from '../observe/reporter.ts'
import type { NodeContext } from './context.ts'

/**
 * Ends the node; later calls are ignored as consequences. `message` names the cause and the remedy.
 */
export type Failing = (message: string) => void

/**
 * Time for a load balancer to remove the node. Only a few blocks come in this time, so the views do
 * not fill.
 */
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
    // A node that fails during its start has nothing to serve.
    if (!health.isServing) return fail(message)
    report('node_fails', { reason: message })
    setTimeout(() => fail(message), FAILURE_MS)
  }
}
