/**
 * Measures the cost of idle and slow connections. It prints the node's memory, and how long an
 * honest client waits for a light response. It covers both paths of plain requests (`--http`).
 * Usage: npm run bench:sockets -- [--seconds 8] [--idle 5000] [--slow 1000] [--readers 250]
 */
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Server, startCommand } from './servers.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '8' },
    idle: { type: 'string', default: '5000' },
    slow: { type: 'string', default: '1000' },
    readers: { type: 'string', default: '250' },
  },
})
const milliseconds = Number(values.seconds) * 1_000
/** Fewer than the sockets that one address may have. */
const PER_ADDRESS = 200
/** Pauses between two requests of the honest client, and between two bytes of a slow header. */
const PAUSE_MS = 20
const BYTE_MS = 250
const SETTLE_MS = 2_000

const body = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}","params":[]}`
const post = (method: string) =>
  `POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body(method).length}\r\n\r\n${body(method)}`
const SLOW_HEADER = `POST / HTTP/1.1\r\nhost: localhost\r\nx-slow: ${'a'.repeat(10_000)}`

type Row = {
  readonly name: string
  readonly count: number
  /** Starts the behaviour of the connection. */
  readonly open: (socket: Socket) => void
}
const ROWS: readonly Row[] = [
  { name: 'none', count: 0, open() {} },
  {
    name: 'idle, after one request each',
    count: Number(values.idle),
    open(socket) {
      socket.resume()
      socket.write(post('eth_chainId'))
    },
  },
  {
    name: 'headers that come byte by byte',
    count: Number(values.slow),
    open(socket) {
      let at = 0
      const timer = setInterval(
        () => socket.write(SLOW_HEADER[at++ % SLOW_HEADER.length]!),
        BYTE_MS,
      )
      socket.once('close', () => clearInterval(timer))
      socket.resume()
    },
  },
  {
    name: 'readers that do not read 20 long responses',
    count: Number(values.readers),
    open(socket) {
      socket.pause()
      socket.write(post('rpc.discover').repeat(20))
    },
  },
]

async function openAll({ count, open }: Row, port: number): Promise<Socket[]> {
  const sockets: Socket[] = []
  for (let at = 0; at < count; at++) {
    const from = `127.0.${1 + Math.floor(at / PER_ADDRESS)}.1`
    const socket = connect({ port, host: '127.0.0.1', localAddress: from })
    // The server may end the connection at any time.
    socket.on('error', () => {})
    socket.once('connect', () => open(socket))
    sockets.push(socket)
    if (at % 100 === 99) await sleep(PAUSE_MS)
  }
  await sleep(SETTLE_MS)
  return sockets
}

const residentMb = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1_024

/** Returns the milliseconds of each response in ascending order. */
async function honest({ url }: Server): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const times: number[] = []
  for (const end = performance.now() + milliseconds; performance.now() < end; ) {
    const start = performance.now()
    await new Promise<void>((resolve, reject) => {
      const headers = { 'content-type': 'application/json' }
      const sent = request(url, { method: 'POST', agent, headers }, (response) => {
        response.resume()
        response.once('end', resolve)
      })
      sent.once('error', reject)
      sent.end(body('eth_blockNumber'))
    })
    times.push(performance.now() - start)
    await sleep(PAUSE_MS)
  }
  agent.destroy()
  return times.toSorted((a, b) => a - b)
}

console.log('| connections | --http | open | memory MB | p50 ms | p99 ms | max ms | responses |')
console.log('|---|---|---|---|---|---|---|---|')
for (const http of ['llhttp', 'node']) {
  const server = await startCommand(['dev', '--ephemeral', '--http', http])
  try {
    const { port } = new URL(server.url)
    await honest(server)
    for (const row of ROWS) {
      const before = residentMb(server.pid)
      const sockets = await openAll(row, Number(port))
      const times = await honest(server)
      const open = sockets.filter(({ readyState }) => readyState === 'open').length
      const at = (share: number) =>
        times[Math.min(times.length - 1, Math.floor(times.length * share))]!
      const memory = residentMb(server.pid)
      const fields = [
        ...[row.name, http, open, `${memory.toFixed(0)} (+${(memory - before).toFixed(0)})`],
        ...[at(0.5).toFixed(1), at(0.99).toFixed(1), times.at(-1)!.toFixed(1), times.length],
      ]
      console.log(`| ${fields.join(' | ')} |`)
      for (const socket of sockets) socket.destroy()
      await sleep(SETTLE_MS)
    }
  } finally {
    await server.stop()
  }
}
