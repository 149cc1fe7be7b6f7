/** The process of a hostile client: makes what it will send, sends it for some seconds when it is told to, says what came back, and ends. */

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

/** What comes to the sockets before it is JSON. */
export const DOOR_ROWS: readonly Row[] = [...HTTP_ROWS, ...SOCKET_ROWS]
export const ROWS: readonly Row[] = [...BODY_ROWS, ...DOOR_ROWS, ...CALL_ROWS, ...WEBSOCKET_ROWS]

/** What an attacker is started with. */
export type Orders = {
  readonly row: string
  readonly port: number
  readonly seconds: number
  readonly seed: number
}
export type Told = {
  /** How often each came back. */
  readonly outcomes: Readonly<Record<string, number>>
  /** Milliseconds of processor that sending took: it shares two with the node. */
  readonly processorMs: number
  /** What was answered last, of the slowest. */
  readonly slowest: readonly { readonly what: string; readonly ms: number }[]
}
export type Attacker = {
  /** Sends; resolves when the process has ended and all its sockets with it. */
  attack(): Promise<Told>
}

const FILE = fileURLToPath(import.meta.url)
const SLOWEST = 3
/** The first is 127.0.0.2: the honest clients have others. */
const FIRST_ADDRESS = 2

/** Resolves when what it will send is made. @throws when the process ends before that */
export async function startAttacker(orders: Orders): Promise<Attacker> {
  const child = fork(FILE, [JSON.stringify(orders)])
  const forget = () => child.kill('SIGKILL')
  process.once('exit', forget)
  const ended = once(child, 'exit').finally(() => process.off('exit', forget))
  const isReady = await Promise.race([once(child, 'message').then(() => true), ended])
  if (isReady !== true) throw new Error(`no attacker for ${orders.row}`)
  return {
    async attack() {
      let told: Told = { outcomes: { 'it ended early': 1 }, processorMs: 0, slowest: [] }
      child.once('message', (message) => {
        told = message as Told
      })
      child.send('go')
      await ended
      return told
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
    told(outcome, what, ms) {
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
  process.send!({ outcomes, processorMs, slowest } satisfies Told, () => process.exit())
}

if (process.argv[1] === FILE) void run(JSON.parse(process.argv[2]!) as Orders)
