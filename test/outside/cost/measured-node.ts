/** A node with the agent in its main thread, and what an input costs it. */

import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { Edit } from '../../kit/edits.ts'
import { freePort } from '../../kit/free-port.ts'
import { startNode } from '../../kit/node.ts'
import { ADMIN_PORT, AGENT_PORT, type Turns } from './agent.ts'
import { openFor, type Patience, type Sent } from './client.ts'
import { slownessOf } from './slowness.ts'
import type { Case } from './wire.ts'

/** What one case did to the front. */
export type Cost = Turns &
  Sent & {
    /** Charged; where nothing was, what its bytes cost. */
    readonly points: number
    /** How many times as long as usual the machine took for a fixed job before it; 1 at least. */
    readonly slowness: number
  }
export interface MeasuredNode {
  readonly url: string
  measure(one: Case): Promise<Cost>
  /** Looks again how slow the machine is: before an input is judged by several measures. */
  calibrate(): void
  /** All at once, each on a connection of its own: what they cost together. */
  measureAll(all: readonly Case[], patience?: Patience): Promise<Cost>
  output(): string
  stop(): Promise<unknown>
}

/** Bytes that make a point. */
const POINT_BYTES = 65_536

/** @param edits of a test build; none: the product @param more flags of the node */
export async function startMeasured(
  edits: readonly Edit[] = [],
  more: readonly string[] = [],
): Promise<MeasuredNode> {
  const listener = createServer()
  const port = await listening(listener)
  const connected = once(listener, 'connection') as Promise<[Socket]>
  const agentUrl = new URL('./agent.ts', import.meta.url).href
  const before = process.env['NODE_OPTIONS']
  // Through the environment, which the process that is started takes over.
  process.env['NODE_OPTIONS'] = `${before ?? ''} --import ${agentUrl}`
  process.env[AGENT_PORT] = String(port)
  const adminPort = await freePort()
  process.env[ADMIN_PORT] = String(adminPort)
  // All of it comes from one address, which shall be refused for nothing but the form of an input.
  const free = ['--rate-limit', '1000000', '--limit-cut-off-ms', '1']
  const flags = ['--ephemeral', ...free, '--admin-port', String(adminPort), ...more]
  const node = await startNode([...flags, '--log-level', 'error'], 'dev', edits)
  if (before === undefined) delete process.env['NODE_OPTIONS']
  else process.env['NODE_OPTIONS'] = before
  const [socket] = await connected
  listener.close()
  const ask = asker(socket)
  const url = new URL(node.url)
  let charged = 0
  let slowness = slownessOf()

  async function measured(all: readonly Case[], patience?: Patience): Promise<Cost> {
    const opened = await Promise.all(all.map((one) => openFor(one, Number(url.port), patience)))
    try {
      await ask('b')
      const sent = sumOf(await Promise.all(opened.map(({ send }) => send())))
      const turns = (await ask('e')) as Turns
      const points = turns.charged - charged
      charged = turns.charged
      const least = Math.max(1, Math.ceil(sent.bytes / POINT_BYTES))
      return { ...turns, ...sent, points: points === 0 ? least : points, slowness }
    } finally {
      for (const { close } of opened) close()
    }
  }

  return {
    url: node.url,
    output: node.output,
    measure: async (one) => measured([one]),
    measureAll: measured,
    calibrate() {
      slowness = slownessOf()
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

function asker(socket: Socket): (word: string) => Promise<unknown> {
  socket.setNoDelay()
  socket.on('error', () => {})
  const waiting: ((answer: unknown) => void)[] = []
  createInterface({ input: socket }).on('line', (line) => waiting.shift()?.(JSON.parse(line)))
  return (word) =>
    new Promise((resolve, reject) => {
      const gone = () => reject(new Error('the node has ended'))
      socket.once('close', gone)
      waiting.push((answer) => {
        socket.off('close', gone)
        resolve(answer)
      })
      socket.write(word)
    })
}

function sumOf(sent: readonly Sent[]): Sent {
  const sum = (pick: (one: Sent) => number) => sent.reduce((total, one) => total + pick(one), 0)
  return {
    bytes: sum(({ bytes }) => bytes),
    answers: sum(({ answers }) => answers),
    answerBytes: sum(({ answerBytes }) => answerBytes),
  }
}
