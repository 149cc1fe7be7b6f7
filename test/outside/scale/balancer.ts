/** HAProxy with the file that operators get, as it stands, and what its statistics say. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../../kit/free-port.ts'
import { until } from '../follow/nodes.ts'

export const HAPROXY_FILE = 'docs/operate/scale/haproxy.cfg'

const START_MS = 10_000

export const hasHaproxy = (): boolean => spawnSync('haproxy', ['-v']).status === 0

export type Balancer = {
  readonly url: string
  readonly port: number
  readonly pid: number
  /** A row of the statistics for each server of `rpc`, by name. */
  stats(): Promise<Readonly<Record<string, ServerStats>>>
  /** Which server each address stays at, by its name. */
  stuck(): Promise<ReadonlyMap<string, string>>
  stop(): Promise<void>
}
export type ServerStats = {
  /** UP, DOWN, DRAIN, with more behind it. */
  readonly status: string
  readonly weight: number
  readonly requests: number
}

/** @param env of the file, beside BIND and STATS_SOCKET */
export async function startBalancer(
  folder: string,
  env: Readonly<Record<string, string>>,
  file = HAPROXY_FILE,
): Promise<Balancer> {
  const port = await freePort()
  const statsSocket = join(folder, `stats-${port}.sock`)
  const child = spawn('haproxy', ['-db', '-f', file], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      ...env,
      BIND: `127.0.0.1:${port}`,
      STATS_SOCKET: statsSocket,
    },
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  const isThere = await until(async () => existsSync(statsSocket), START_MS)
  if (!isThere) throw new Error(`haproxy did not begin within ${START_MS} ms`)
  const url = `http://127.0.0.1:${port}`
  const balancer = { url, port, pid: child.pid!, stop: () => stop(child) }
  return {
    ...balancer,
    stats: () => readStats(statsSocket),
    stuck: () => readTable(statsSocket),
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

async function ask(path: string, command: string): Promise<string> {
  const socket = connect(path)
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.end(`${command}\n`)
  await once(socket, 'close')
  return text
}

const STUCK = /key=(?:::ffff:)?(\S+) .*server_key=(\S+)/g
async function readTable(path: string): Promise<ReadonlyMap<string, string>> {
  const text = await ask(path, 'show table rpc')
  return new Map([...text.matchAll(STUCK)].map(([, address, server]) => [address!, server!]))
}

async function readStats(path: string): Promise<Readonly<Record<string, ServerStats>>> {
  const text = await ask(path, 'show stat rpc 4 -1')
  const [head = '', ...rows] = text.trim().split('\n')
  const names = head.replace(/^# /, '').split(',')
  const cells = rows.map((row) => row.split(','))
  const cell = (row: readonly string[], name: string) => row[names.indexOf(name)] ?? ''
  return Object.fromEntries(
    cells.map((row) => [
      cell(row, 'svname'),
      {
        status: cell(row, 'status'),
        weight: Number(cell(row, 'weight')),
        requests: Number(cell(row, 'stot')),
      },
    ]),
  )
}
