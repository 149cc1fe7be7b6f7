/**
 * The process of a hostile client makes its requests and sends them for some seconds on demand. It
 * reports the outcomes and ends.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { mulberry32 } from '../../kit/run-options.ts'
import type { Row } from './attack.ts'
import { BODY_ROWS } from './bodies.ts'
import { CALL_ROWS } from './calls.ts'
import { HTTP_ROWS } from './http.ts'
import { SOCKET_ROWS } from './sockets.ts'
import { WEBSOCKET_ROWS } from './websocket.ts'

/** These rows attack the server before any JSON is parsed. */
export const SERVER_ROWS: readonly Row[] = [...HTTP_ROWS, ...SOCKET_ROWS]
export const ROWS: readonly Row[] = [...BODY_ROWS, ...SERVER_ROWS, ...CALL_ROWS, ...WEBSOCKET_ROWS]

/** The arguments of an attacker's process. */
export type Orders = {
  readonly row: string
  readonly port: number
  readonly seconds: number
  readonly seed: number
}
export type AttackReport = {
  /** Counts each outcome. */
  readonly outcomes: Readonly<Record<string, number>>
  /**
   * The processor time of sending in milliseconds; the client shares two processors with the node.
   */
  readonly processorMs: number
  /** The slowest responses. */
  readonly slowest: readonly { readonly what: string; readonly ms: number }[]
}
export type Attacker = {
  /** Sends the requests; resolves when the process has ended with all its sockets. */
  attack(): Promise<AttackReport>
}

const FILE = fileURLToPath(import.meta.url)
const SLOWEST = 3
/** The first address is 127.0.0.2, because the honest clients use others. */
const FIRST_ADDRESS = 2

/**
 * Starts the process; resolves when its requests are made.
 * @throws when the process ends earlier
 */
export async function startAttacker(orders: Orders): Promise<Attacker> {
  const child = fork(FILE, [JSON.stringify(orders)])
  const forget = () => child.kill('SIGKILL')
  process.once('exit', forget)
  const ended = once(child, 'exit').finally(() => process.off('exit', forget))
  const isReady = await Promise.race([once(child, 'message').then(() => true), ended])
  if (isReady !== true) throw new Error(`no attacker for ${orders.row}`)
  return {
    async attack() {
      let report: AttackReport = { outcomes: { 'it ended early': 1 }, processorMs: 0, slowest: [] }
      child.once('message', (message) => {
        report = message as AttackReport
      })
      child.send('go')
      await ended
      return report
    },
  }
}

async function run({ row, port, seconds, seed }: Orders): Promise<void> {
  const { make, addresses = 1 } = ROWS.find(({ name }) => name === row)!
  const outcomes: Record<string, number> = {}
  const slowest: { what: string; ms: number }[] = []
  const start = make({
    port,
    from: Array.from({ length: addresses }, (_, at) => `127.0.0.${FIRST_ADDRESS + at}`),
    random: mulberry32(seed),
    report(outcome, what, ms) {
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
      if (what === undefined || ms === undefined) return
      slowest.push({ what, ms })
      slowest.sort((a, b) => b.ms - a.ms)
      slowest.length = Math.min(slowest.length, SLOWEST)
    },
  })
  process.send!('ready')
  await once(process, 'message')
  const before = process.cpuUsage()
  start()
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
  const { user, system } = process.cpuUsage(before)
  const processorMs = (user + system) / 1e3
  process.send!({ outcomes, processorMs, slowest } satisfies AttackReport, () => process.exit())
}

if (process.argv[1] === FILE) void run(JSON.parse(process.argv[2]!) as Orders)
