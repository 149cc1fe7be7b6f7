/** A node with the agent in its main thread measures the cost of inputs. */

import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { Edit } from '../../kit/edits.ts'
import { freePort } from '../../kit/free-port.ts'
import { startNode } from '../../kit/node.ts'
import { ADMIN_PORT, AGENT_PORT, type Turns } from './agent.ts'
import { openFor, type Sent, type WaitFor } from './client.ts'
import type { Case } from './wire.ts'

/** The cost of one case for the front. */
export type Cost = Turns &
  Sent & {
    /** The points charged; for a case without a charge, the points of its bytes. */
    readonly points: number
    /** The factor by which the front's thread was slower than usual at fixed jobs; at least 1. */
    readonly slowness: number
  }
export interface MeasuredNode {
  readonly url: string
  /** Measures the cost of a case, with the slowness of the last calibration. */
  measure(one: Case): Promise<Cost>
  /** Measures the common cost of cases that are sent at once, each on its own connection. */
  measureAll(all: readonly Case[], waitFor?: WaitFor): Promise<Cost>
  /**
   * Measures the common cost between two calibrations, and takes the greater slowness. This is for
   * cases that seem expensive, because a busy machine can become slow at any moment.
   */
  measureCalibrated(all: readonly Case[], waitFor?: WaitFor): Promise<Cost>
  output(): string
  stop(): Promise<unknown>
}

/** This many bytes cost a point. */
const POINT_BYTES = 65_536

/**
 * Starts a node with the agent.
 * @param edits of a test build; none: the product
 * @param more further flags of the node
 */
export async function startMeasured(
  edits: readonly Edit[] = [],
  more: readonly string[] = [],
): Promise<MeasuredNode> {
  const listener = createServer()
  const port = await listening(listener)
  const connected = once(listener, 'connection') as Promise<[Socket]>
  const agentUrl = new URL('./agent.ts', import.meta.url).href
  const before = process.env['NODE_OPTIONS']
  // The started process takes its settings from the environment.
  process.env['NODE_OPTIONS'] = `${before ?? ''} --import ${agentUrl}`
  process.env[AGENT_PORT] = String(port)
  const adminPort = await freePort()
  process.env[ADMIN_PORT] = String(adminPort)
  // All inputs come from one address, which may be refused only for the form of an input.
  const free = ['--rate-limit', '1000000', '--limit-cut-off-ms', '1']
  const flags = ['--ephemeral', ...free, '--admin-port', String(adminPort), ...more]
  const node = await startNode([...flags, '--log-level', 'error'], 'dev', edits)
  if (before === undefined) delete process.env['NODE_OPTIONS']
  else process.env['NODE_OPTIONS'] = before
  const [socket] = await connected
  listener.close()
  const request = requester(socket)
  const url = new URL(node.url)
  let charged = 0
  let slowness = 1
  await calibrate()

  async function calibrate(): Promise<void> {
    slowness = Number(await request('s'))
  }
  async function measured(all: readonly Case[], waitFor?: WaitFor): Promise<Cost> {
    const opened = await Promise.all(all.map((one) => openFor(one, Number(url.port), waitFor)))
    try {
      await request('b')
      const sent = sumOf(await Promise.all(opened.map(({ send }) => send())))
      const turns = (await request('e')) as Turns
      const points = turns.charged - charged
      charged = turns.charged
      const min = Math.max(1, Math.ceil(sent.bytes / POINT_BYTES))
      return { ...turns, ...sent, points: points === 0 ? min : points, slowness }
    } finally {
      for (const { close } of opened) close()
    }
  }

  return {
    url: node.url,
    output: node.output,
    measure: async (one) => measured([one]),
    measureAll: measured,
    async measureCalibrated(all, waitFor) {
      await calibrate()
      const before = slowness
      const cost = await measured(all, waitFor)
      await calibrate()
      return { ...cost, slowness: Math.max(before, slowness) }
    },
    async stop() {
      socket.destroy()
      return node.stop()
    },
  }
}

async function listening(server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as { port: number }).port
}

function requester(socket: Socket): (word: string) => Promise<unknown> {
  socket.setNoDelay()
  socket.on('error', () => {})
  const waiting: ((response: unknown) => void)[] = []
  createInterface({ input: socket }).on('line', (line) => waiting.shift()?.(JSON.parse(line)))
  return (word) =>
    new Promise((resolve, reject) => {
      const gone = () => reject(new Error('the node has ended'))
      socket.once('close', gone)
      waiting.push((response) => {
        socket.off('close', gone)
        resolve(response)
      })
      socket.write(word)
    })
}

function sumOf(sent: readonly Sent[]): Sent {
  const sum = (pick: (one: Sent) => number) => sent.reduce((total, one) => total + pick(one), 0)
  return {
    bytes: sum(({ bytes }) => bytes),
    responses: sum(({ responses }) => responses),
    responseBytes: sum(({ responseBytes }) => responseBytes),
  }
}
