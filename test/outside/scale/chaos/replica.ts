/** One of the replicas: a place that stays the same however often its process is killed, stopped and started again. */

import { type RunningNode, startNode } from '../../../kit/node.ts'
import type { Cuttable } from '../../follow/cuts.ts'

export const DRAIN_MS = 3_000

export type Replica = {
  /** Of the server in haproxy.cfg. */
  readonly name: string
  readonly url: string
  readonly agentPort: number
  /** Between the sequencer's feed and this one. */
  readonly line: Cuttable
  readonly adminUrl: string
  node: RunningNode
  /** In the same directory, on the same port. */
  again(): Promise<void>
}

export type ReplicaFlags = {
  readonly name: string
  readonly port: number
  readonly agentPort: number
  readonly adminPort: number
  readonly line: Cuttable
  readonly datadir: string
  /** Of all replicas. */
  readonly shared: readonly string[]
}

export async function startReplica(flags: ReplicaFlags): Promise<Replica> {
  const { name, port, agentPort, adminPort, line, datadir, shared } = flags
  const start = () =>
    startNode(
      [
        ...['--datadir', datadir, '--port', String(port), '--admin-port', String(adminPort)],
        ...['--feed', `ws://127.0.0.1:${line.port}/feed`, '--agent-port', String(agentPort)],
        ...['--drain-ms', String(DRAIN_MS), ...shared],
      ],
      'follow',
    )
  const replica: Replica = {
    ...{ name, url: `http://127.0.0.1:${port}`, agentPort, line },
    adminUrl: `http://127.0.0.1:${adminPort}/metrics`,
    node: await start(),
    async again() {
      replica.node = await start()
    },
  }
  return replica
}

/** A metric without labels; undefined while nobody answers. */
export async function metricOf({ adminUrl }: Replica, name: string): Promise<number | undefined> {
  try {
    const text = await (await fetch(adminUrl, { signal: AbortSignal.timeout(1_000) })).text()
    const found = new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\S+)$`, 'm').exec(text)
    return found === null ? undefined : Number(found[1])
  } catch {
    return undefined
  }
}
