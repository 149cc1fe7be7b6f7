/** HAProxy runs with the file that operators get, unchanged, and its statistics are read. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../../kit/free-port.ts'
import { until } from '../follow/nodes.ts'

export const HAPROXY_FILE = 'docs/operate/scale/haproxy.cfg'

const START_MS = 120_000

export const hasHaproxy = (): boolean => spawnSync('haproxy', ['-v']).status === 0

export type Balancer = {
  readonly url: string
  readonly port: number
  readonly pid: number
  /** Reads the statistics of each server of `rpc`, by name. */
  stats(): Promise<Readonly<Record<string, ServerStats>>>
  /** Maps each address to the name of the server that it stays at. */
  stuck(): Promise<ReadonlyMap<string, string>>
  /** Removes all addresses from that map. */
  forget(): Promise<void>
  stop(): Promise<void>
}
export type ServerStats = {
  /** UP, DOWN or DRAIN, perhaps with more text. */
  readonly status: string
  readonly weight: number
  readonly requests: number
  /** Transitions from UP to DOWN. */
  readonly downs: number
}

/**
 * Starts HAProxy.
 * @param env of the file, besides BIND and STATS_SOCKET
 */
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
    async forget() {
      await request(statsSocket, 'clear table rpc')
    },
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

async function request(path: string, command: string): Promise<string> {
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
  const text = await request(path, 'show table rpc')
  return new Map([...text.matchAll(STUCK)].map(([, address, server]) => [address!, server!]))
}

async function readStats(path: string): Promise<Readonly<Record<string, ServerStats>>> {
  const text = await request(path, 'show stat rpc 4 -1')
  const [head = '', ...rows] = text.trim().split('\n')
  const names = head.replace(/^# /, '').split(',')
  const columns = rows.map((row) => row.split(','))
  const fieldOf = (row: readonly string[], name: string) => row[names.indexOf(name)] ?? ''
  return Object.fromEntries(
    columns.map((row) => [
      fieldOf(row, 'svname'),
      {
        status: fieldOf(row, 'status'),
        weight: Number(fieldOf(row, 'weight')),
        requests: Number(fieldOf(row, 'stot')),
        downs: Number(fieldOf(row, 'chkdown')),
      },
    ]),
  )
}
