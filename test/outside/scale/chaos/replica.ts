/** A replica stays the same, however often its process is killed, stopped and restarted. */

import { metricsUrl, readMetrics } from '../../../kit/metrics.ts'
import { type RunningNode, startNode } from '../../../kit/node.ts'
import type { Cuttable } from '../../follow/cuts.ts'

export const DRAIN_MS = 3_000

export type Replica = {
  /** The name of its server in haproxy.cfg. */
  readonly name: string
  readonly url: string
  readonly agentPort: number
  /** The connection between the sequencer's feed and the replica. */
  readonly line: Cuttable
  readonly adminUrl: string
  node: RunningNode
  /** Restarts the node in the same directory, on the same port. */
  restart(): Promise<void>
}

export type ReplicaFlags = {
  readonly name: string
  readonly port: number
  readonly agentPort: number
  readonly adminPort: number
  readonly line: Cuttable
  readonly datadir: string
  /** The flags of all replicas. */
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
    name,
    url: `http://127.0.0.1:${port}`,
    agentPort,
    line,
    adminUrl: metricsUrl(adminPort),
    node: await start(),
    async restart() {
      replica.node = await start()
    },
  }
  return replica
}

/** Reads a metric; undefined: the node does not respond, or the metric is absent. */
export async function metricOf({ adminUrl }: Replica, name: string): Promise<number | undefined> {
  try {
    return (await readMetrics(adminUrl, AbortSignal.timeout(1_000))).get(name)
  } catch {
    return undefined
  }
}
