/** This node gets overloaded, and its metrics are read. */

import { HANGS_MS } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { freePort } from '../../kit/free-port.ts'
import { metricIn, metricsUrl, readMetrics } from '../../kit/metrics.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

export type OverloadedNode = RunningNode & {
  /** Maps names like `flashnode_pool_busy` and `flashnode_front{what="filters"}` to values. */
  metrics(): Promise<ReadonlyMap<string, number>>
  /** Reads the other data of the admin port. */
  details(): Promise<Readonly<Record<string, unknown>>>
}

/** With this edit the sequencer stops no transaction, however long it takes on a busy machine. */
export const NO_QUOTA: readonly Edit[] = [
  {
    file: 'engine/sources/sequencer/fill.ts',
    find: 'execute(transaction, { isExpired })',
    replace: 'execute(transaction, { isExpired: () => isExpired === undefined })',
  },
]

/** The node has no request limit, because everything comes from one machine. */
const FLAGS = ['--ephemeral', '--rate-limit', 'off', '--limit-sockets-per-client', '0']

export async function startOverloaded(
  flags: readonly string[],
  edits: readonly Edit[] = [],
): Promise<OverloadedNode> {
  const port = await freePort()
  const node = await startNode([...FLAGS, '--admin-port', String(port), ...flags], 'dev', edits)
  return {
    ...node,
    details: async () =>
      (await (await fetch(`http://127.0.0.1:${port}/`)).json()) as Record<string, unknown>,
    metrics: () => readMetrics(metricsUrl(port)),
  }
}

/**
 * Reads one metric of a node.
 * @throws when no metric has this name
 */
export async function metric(node: OverloadedNode, name: string): Promise<number> {
  return metricIn(await node.metrics(), name)
}

export const chain = (value: string) => `flashnode_chain{value="${value}"}`
export const front = (what: string) => `flashnode_front{what="${what}"}`
export const event = (name: string) => `flashnode_chain_events_total{event="${name}"}`

/** Repeats a read until the value is right; gives the last value when the time is over. */
export async function settled<T>(
  read: () => Promise<T>,
  isRight: (value: T) => boolean,
  withinMs = HANGS_MS,
): Promise<T> {
  const until = performance.now() + withinMs
  for (;;) {
    const value = await read()
    if (isRight(value) || performance.now() >= until) return value
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
