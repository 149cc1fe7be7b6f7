/**
 * Measures the front's cost of a light request in µs of processor time. anvil and bare HTTP
 * (`bare-front.ts`) take turns with it. Ratios are requests per CPU-second of flashnode over those
 * of the other server; each is the median of the rounds.
 * Usage: npm run bench:front -- [--rounds 5] [--seconds 3] [--connections 32] [--only TEXT]
 * [--against DIRECTORY]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { WebSocket } from 'ws'
import { load } from '../workers/commands/bench/load.ts'
import {
  cpuSecondsOf,
  installAnvil,
  rpc,
  type Server,
  startAnvil,
  startCommand,
} from './servers.ts'
import { included } from './workloads/fill.ts'
import { writeGenesis } from './workloads/genesis.ts'
import { sign } from './workloads/signed.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '32' },
    only: { type: 'string', default: '' },
    against: { type: 'string' },
  },
})
const rounds = Number(values.rounds)
const milliseconds = Number(values.seconds) * 1_000
const connections = Number(values.connections)

const HOLDER = '0x70997970c51812dc3a010c7d01b50e0d17dc79c8'
const { raw, hash } = sign(
  { to: HOLDER, value: 1n, gasLimit: 21_000n, data: '0x' },
  { account: 0, nonce: 0 },
)
type Call = { readonly method: string; readonly params: readonly unknown[] }
const CALLS: readonly Call[] = [
  { method: 'eth_chainId', params: [] },
  { method: 'eth_blockNumber', params: [] },
  { method: 'eth_getBalance', params: [HOLDER, 'latest'] },
  { method: 'eth_getTransactionReceipt', params: [hash] },
]
const bodyOf = (call: Call, id: number) => ({ jsonrpc: '2.0', id, ...call })
const ROWS: readonly { readonly name: string; readonly body: string }[] = [
  ...CALLS.map((call) => ({ name: call.method, body: JSON.stringify(bodyOf(call, 1)) })),
  {
    name: 'batch of 10',
    body: JSON.stringify(Array.from({ length: 10 }, (_, at) => bodyOf(CALLS[at % 4]!, at))),
  },
]

/** Returns the number of responses. @throws {Error} if there are errors */
async function overHttp({ url }: Server, body: string): Promise<number> {
  const until = performance.now() + milliseconds
  const next = () => (performance.now() < until ? { body } : undefined)
  const { responses, failed, firstFailure } = await load({ url, connections, next })
  if (failed > 0) throw new Error(`${failed} errors: ${firstFailure}`)
  return responses
}

async function overWebSocket({ url }: Server, body: string): Promise<number> {
  let responses = 0
  const until = performance.now() + milliseconds
  const sockets = Array.from({ length: connections }, async () => {
    const socket = new WebSocket(url.replace('http', 'ws'))
    await once(socket, 'open')
    socket.on('message', () => {
      responses++
      if (performance.now() < until) socket.send(body)
      else socket.close()
    })
    socket.send(body)
    await once(socket, 'close')
  })
  await Promise.all(sockets)
  return responses
}

/** Starts a server that knows the results. @param resultsFile results by method, as JSON */
async function startBare(kind: 'http' | 'llhttp', resultsFile: string): Promise<Server> {
  const child = spawn(process.execPath, ['bench/bare-front.ts', kind, resultsFile], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  return {
    name: `bare ${kind}`,
    url: `http://127.0.0.1:${String(port).trim()}`,
    pid: child.pid!,
    cpuSeconds: () => cpuSecondsOf(child.pid!),
    async stop() {
      const ended = once(child, 'exit')
      child.kill()
      await ended
    },
  }
}

type SendRequest = (server: Server, body: string) => Promise<number>

/** Returns µs of processor time for each response. */
async function microseconds(server: Server, request: SendRequest, body: string): Promise<number> {
  const before = server.cpuSeconds()
  const responses = await request(server, body)
  return ((server.cpuSeconds() - before) * 1e6) / responses
}

const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[all.length >> 1]!

async function compare(
  servers: readonly Server[],
  name: string,
  request: SendRequest,
  body: string,
) {
  for (const server of servers) await microseconds(server, request, body)
  const samples = servers.map((): number[] => [])
  for (let round = 0; round < rounds; round++)
    for (const [at, server] of servers.entries())
      samples[at]!.push(await microseconds(server, request, body))
  const [ours, ...others] = samples
  const fields = [
    ...samples.map((all) => median(all).toFixed(1)),
    ...others.map((all) => median(all.map((other, round) => other / ours![round]!)).toFixed(2)),
  ]
  console.log(`| ${[name, ...fields].join(' | ')} |`)
}

installAnvil()
const { allocFile, genesisFile } = writeGenesis({ flashnode: 0, anvil: 0 })
const resultsFile = join(tmpdir(), `flashnode-bench-${process.pid}-results.json`)
const dev = ['dev', '--ephemeral', '--genesis-alloc', allocFile]
const servers: Server[] = []
try {
  servers.push(await startCommand(dev))
  if (values.against === undefined)
    servers.push({ ...(await startCommand([...dev, '--http', 'node'])), name: '--http node' })
  else servers.push(await startCommand(dev, values.against))
  servers.push(await startAnvil(genesisFile, { hasBlocks: true }))
  for (const server of servers) {
    await rpc(server.url, 'eth_sendRawTransaction', [raw])
    await included(server, hash)
  }
  const results: Record<string, string> = {}
  for (const { method, params } of CALLS)
    results[method] = JSON.stringify(await rpc(servers[0]!.url, method, params))
  writeFileSync(resultsFile, JSON.stringify(results))
  servers.push(await startBare('http', resultsFile), await startBare('llhttp', resultsFile))

  const names = servers.map(({ name }) => name)
  const columns = [
    ...names.map((name) => `${name} µs`),
    ...names.slice(1).map((name) => `/ ${name}`),
  ]
  console.log(`| request | ${columns.join(' | ')} |\n|${'---|'.repeat(columns.length + 1)}`)
  for (const [way, request] of [
    ['HTTP', overHttp],
    ['WebSocket', overWebSocket],
  ] as const)
    for (const { name, body } of ROWS)
      if (`${name}, ${way}`.includes(values.only))
        await compare(servers, `${name}, ${way}`, request, body)
} finally {
  for (const server of servers) await server.stop()
  for (const file of [allocFile, genesisFile, resultsFile]) rmSync(file, { force: true })
}
