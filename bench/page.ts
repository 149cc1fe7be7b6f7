/**
 * Measures the cost of the status page on an idle development chain. Three cases take turns: no
 * page, one on the public port, one on the admin port. It prints the node's processor time a second
 * and its memory. The client reads what a browser would get.
 * Usage: npm run bench:page -- [--rounds 3] [--seconds 20]
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { WebSocket } from 'ws'
import { startCommand } from './servers.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '20' },
  },
})
const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)]
const ADMIN_PORT = 8_599
/** Pause after a page opens or closes. */
const SETTLE_MS = 2_000

const server = await startCommand(['dev', '--ephemeral', '--admin-port', String(ADMIN_PORT)])
const kinds = [
  ['nobody looks', undefined],
  ['a page on the public port', new URL('/page/live', server.url)],
  ['a page on the admin port', new URL(`http://127.0.0.1:${ADMIN_PORT}/page/live`)],
] as const
type Sample = { readonly cpuMs: number; readonly residentMb: number; readonly receivedKb: number }

const residentMb = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'latin1'))![1]) / 1_024
const pass = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function sample(url: URL | undefined): Promise<Sample> {
  let received = 0
  const socket = url && new WebSocket(url.href.replace('http', 'ws'))
  socket?.on('message', (data: Buffer) => {
    received += data.length
  })
  if (socket !== undefined) await once(socket, 'open')
  await pass(SETTLE_MS)
  const [cpu, before] = [server.cpuSeconds(), received]
  await pass(1_000 * seconds)
  const found = {
    cpuMs: (1_000 * (server.cpuSeconds() - cpu)) / seconds,
    residentMb: residentMb(),
    receivedKb: (received - before) / 1_000 / seconds,
  }
  socket?.close()
  return found
}

const samples = kinds.map((): Sample[] => [])
try {
  // Modules that the first page loads are not part of the measured cost.
  for (const [, url] of kinds) if (url !== undefined) await sample(url)
  for (let round = 0; round < rounds; round++)
    for (const [at, [, url]] of kinds.entries()) samples[at]!.push(await sample(url))
} finally {
  await server.stop()
}
const median = (of: readonly number[]): number => of.toSorted((a, b) => a - b)[of.length >> 1]!
console.log(
  '| a development chain at rest | ms CPU a second | MB | kB told a second |\n|---|---|---|---|',
)
for (const [at, [name]] of kinds.entries()) {
  const fields = (['cpuMs', 'residentMb', 'receivedKb'] as const).map((key) =>
    median(samples[at]!.map((one) => one[key])).toFixed(1),
  )
  console.log(`| ${name} | ${fields.join(' | ')} |`)
}
