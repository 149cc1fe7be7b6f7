/**
 * Measures the time for a new replica, and the effect on the copied node and its clients.
 * A state of the given size is loaded and served at a steady request rate. Meanwhile the command
 * copies it as a user runs it.
 * Usage: npm run bench:bootstrap -- [--accounts 1000000] [--rate 20] [--seconds 10]
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bytesToHex } from '../engine/primitives/hex.ts'
import { runToEnd, startNode } from '../test/kit/node.ts'
import { addressOf, writeDump } from './workloads/dump.ts'

const { values } = parseArgs({
  options: {
    accounts: { type: 'string', default: '1000000' },
    rate: { type: 'string', default: '20' },
    seconds: { type: 'string', default: '10' },
  },
})
const accounts = Number(values.accounts)
/** Requests of each kind in a second. */
const rate = Number(values.rate)
const seconds = Number(values.seconds)

type Kind = 'eth_getBalance' | 'eth_call'
const KINDS: readonly Kind[] = ['eth_getBalance', 'eth_call']
/**
 * Requests above this number of open ones are left out and counted, so that a full machine builds
 * no queue.
 */
const MAX_OPEN = 64
const agent = new Agent({ keepAlive: true, maxSockets: MAX_OPEN })
let leftOut = 0

/** Sends one request about a random address or contract. @returns its duration in milliseconds */
function sendRequest(url: URL, kind: Kind): Promise<number> {
  const index = Math.floor(Math.random() * accounts)
  const address = bytesToHex(addressOf(kind === 'eth_call' ? index - (index % 10) : index))
  const params = kind === 'eth_call' ? [{ to: address }, 'latest'] : [address, 'latest']
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: kind, params })
  const headers = { 'content-type': 'application/json', 'content-length': body.length }
  const { hostname: host, port } = url
  const started = performance.now()
  return new Promise((resolve, reject) => {
    const requested = request(
      { host, port, method: 'POST', path: '/', headers, agent },
      (response) => {
        let text = ''
        response.on('data', (piece: Buffer) => {
          text += piece.toString()
        })
        response.once('end', () => {
          if (text.includes('"result"')) resolve(performance.now() - started)
          else reject(new Error(text))
        })
      },
    )
    requested.once('error', reject)
    requested.end(body)
  })
}

type Times = Readonly<Record<Kind, number[]>>
/** Sends requests at a steady rate, without waiting for responses, until `isOver` is true. */
async function load(url: URL, isOver: () => boolean): Promise<Times> {
  const times: Times = { eth_getBalance: [], eth_call: [] }
  const open = new Set<Promise<void>>()
  for (let next = performance.now(); !isOver(); next += 1_000 / rate) {
    const waitMs = next - performance.now()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
    for (const kind of KINDS) {
      if (open.size >= MAX_OPEN) {
        leftOut++
        continue
      }
      const one: Promise<void> = sendRequest(url, kind)
        .then((ms) => void times[kind].push(ms))
        .finally(() => open.delete(one))
      open.add(one)
    }
  }
  await Promise.all(open)
  return times
}
const during = (until: Promise<unknown>) => {
  let isOver = false
  void until.finally(() => {
    isOver = true
  })
  return () => isOver
}
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

const share = (sorted: readonly number[], part: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
function rowOf(name: string, times: Times): string {
  const fields = KINDS.map((kind) => {
    const sorted = times[kind].toSorted((a, b) => a - b)
    return [0.5, 0.99].map((part) => share(sorted, part).toFixed(2)).join(' | ')
  })
  return `| ${name} | ${fields.join(' | ')} |`
}
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

const folder = mkdtempSync(join(tmpdir(), 'flashnode-bench-bootstrap-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const at = (name: string) => join(folder, name)
console.log(
  `${accounts.toLocaleString('en')} accounts, ${rate} of each in a second, load ${loadavg()
    .map((one) => one.toFixed(1))
    .join(' ')}`,
)
writeDump(folder, accounts)
await runToEnd([
  ...['import-state', '--chain', at('genesis.json'), '--state', at('dump.jsonl')],
  ...['--block', at('header.json'), '--datadir', at('source'), '--log-level', 'error'],
])
rmSync(at('dump.jsonl'))
writeFileSync(at('token'), randomBytes(16).toString('hex'))
const node = await startNode(
  [
    '--datadir',
    at('source'),
    '--bootstrap-token-file',
    at('token'),
    '--rate-limit',
    'off',
    '--log-level',
    'error',
  ],
  'serve',
)
const url = new URL(node.url)
await load(url, during(pause(2_000)))
const before = await load(url, during(pause(seconds * 1_000)))
const cpuBefore = cpuSeconds(node.pid)
const started = performance.now()
const child = spawn(process.execPath, [
  ...['workers/main.ts', 'bootstrap', '--from', node.url, '--datadir', at('replica')],
  ...['--token-file', at('token'), '--log-level', 'error'],
])
let said = ''
for (const stream of [child.stdout, child.stderr])
  stream.on('data', (piece: Buffer) => {
    said += piece.toString()
  })
const ended = once(child, 'close')
const beside = await load(url, during(ended))
const [code] = await ended
const took = (performance.now() - started) / 1_000
const cpu = cpuSeconds(node.pid) - cpuBefore
if (code !== 0) throw new Error(`ended with ${code}: ${said}`)
const after = await load(url, during(pause(seconds * 1_000)))
await node.stop()
const bytes = Number(/(\d+) bytes/.exec(said)?.[1])
// Every tenth account has code and four slots.
const rows = accounts + (accounts / 10) * 4
console.log(
  `${took.toFixed(1)} s, ${(bytes / 1e6).toFixed(1)} MB, ${Math.round(rows / took).toLocaleString('en')} rows/s of accounts and slots, ${cpu.toFixed(1)} s of the node's processor, clients included`,
)
if (leftOut > 0) console.log(`${leftOut} questions were left out: the machine was full`)
console.log('| | getBalance p50 ms | p99 | call p50 ms | p99 |\n|---|---|---|---|---|')
console.log(
  [rowOf('before', before), rowOf('while it is copied', beside), rowOf('after', after)].join('\n'),
)
process.exit()
