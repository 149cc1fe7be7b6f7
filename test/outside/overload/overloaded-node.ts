/** A node to overload, and what its metrics say of it. */

import { HANGS_MS } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { freePort } from '../../kit/free-port.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'

export type OverloadedNode = RunningNode & {
  /** `flashnode_pool_busy`, `flashnode_front{what="filters"}` … → value. */
  metrics(): Promise<ReadonlyMap<string, number>>
  /** What the admin port says besides. */
  details(): Promise<Readonly<Record<string, unknown>>>
}

/** A sequencer that stops no transaction, however long it takes on a busy machine. */
export const NO_QUOTA: readonly Edit[] = [
  {
    file: 'engine/sources/sequencer/fill.ts',
    find: 'execute(transaction, { isExpired })',
    replace: 'execute(transaction, { isExpired: () => isExpired === undefined })',
  },
]

/** No request limit: everything comes from one machine. */
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
    async metrics() {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
      return new Map(
        lines.map((line) => {
          const at = line.lastIndexOf(' ')
          return [line.slice(0, at), Number(line.slice(at + 1))] as const
        }),
      )
    },
  }
}

/** One metric of a node. @throws when it has none of this name */
export async function metric(node: OverloadedNode, name: string): Promise<number> {
  const value = (await node.metrics()).get(name)
  if (value === undefined) throw new Error(`the node has no metric ${name}`)
  return value
}

export const chain = (value: string) => `flashnode_chain{value="${value}"}`
export const front = (what: string) => `flashnode_front{what="${what}"}`
export const event = (name: string) => `flashnode_chain_events_total{event="${name}"}`

/** Asks again until it holds; the last answer when the time is over. */
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
