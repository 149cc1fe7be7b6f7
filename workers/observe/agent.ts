/**
 * What HAProxy's agent-check asks: a connection is a question, a line the answer (https://docs.haproxy.org/2.6/configuration.html#agent-check).
 */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { Readiness } from '../../rpc/http/state.ts'
import type { Health } from './health.ts'
import type { Weighing } from './load.ts'

export type Agent = { readonly port: number; close(): Promise<void> }

/** Of one balancer a connection at a time; a few look. */
const MOST_CONNECTIONS = 64
/** For who does not take its line. */
const SILENCE_MS = 5_000
const MOST_REASON = 200

/** @throws the system's error (EADDRINUSE …). */
export async function startAgent(
  address: { readonly host: string; readonly port: number },
  line: () => string,
): Promise<Agent> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.setTimeout(SILENCE_MS, () => socket.destroy())
    // Nothing that it sends is of interest, and unread it would hold the connection.
    socket.resume()
    socket.end(line())
  })
  server.maxConnections = MOST_CONNECTIONS
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
 * `up ready 75%`, `drain`, or `down #reason`. `ready` ends the `drain` of a node before this one at the same place; HAProxy keeps it until
 * then.
 */
export function agentLine(
  health: Pick<Health, 'isStopping'> & { readiness(): Readiness },
  { weight }: Pick<Weighing, 'weight'>,
): string {
  if (health.isStopping) return 'drain\n'
  const { status, reasons } = health.readiness()
  if (status !== 'unready') return `up ready ${weight()}%\n`
  return `down #${plain(reasons.join(', ')).slice(0, MOST_REASON)}\n`
}

/** What stands in HAProxy's statistics: one line of printable ASCII. */
const plain = (text: string): string => text.replace(/[^ -~]+/g, ' ')
