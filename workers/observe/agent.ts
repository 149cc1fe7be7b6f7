/**
 * Server for HAProxy's agent-check: each connection gets one line
 * (https://docs.haproxy.org/2.6/configuration.html#agent-check).
 */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { Readiness } from '../../rpc/http/server-state.ts'
import type { Health } from './health.ts'
import type { Weighing } from './load.ts'

export type Agent = { readonly port: number; close(): Promise<void> }

/** A balancer opens one connection at a time, and there are few balancers. */
const MAX_CONNECTIONS = 64
/** Timeout of a client that does not read its line. */
const SILENCE_MS = 5_000
const MAX_REASON = 200

/**
 * Starts the agent's server.
 * @throws the system's error (EADDRINUSE …)
 */
export async function startAgent(
  address: { readonly host: string; readonly port: number },
  line: () => string,
): Promise<Agent> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.setTimeout(SILENCE_MS, () => socket.destroy())
    // Input is discarded, because unread input would block the end of the connection.
    socket.resume()
    socket.end(line())
  })
  server.maxConnections = MAX_CONNECTIONS
  server.listen(address)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close()
      await once(server, 'close')
    },
  }
}

/**
 * Returns `up ready 75%`, `drain`, or `down #reason`. HAProxy remembers the `drain` of an earlier
 * node at this address; `ready` ends that state.
 */
export function agentLine(
  health: Pick<Health, 'isStopping'> & { readiness(): Readiness },
  { weight }: Pick<Weighing, 'weight'>,
): string {
  if (health.isStopping) return 'drain\n'
  const { status, reasons } = health.readiness()
  if (status !== 'unready') return `up ready ${weight()}%\n`
  return `down #${plain(reasons.join(', ')).slice(0, MAX_REASON)}\n`
}

/** Reduces a text to one line of printable ASCII, for HAProxy's statistics. */
const plain = (text: string): string => text.replace(/[^ -~]+/g, ' ')
