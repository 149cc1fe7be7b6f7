/**
 * Measures costs and gains of further front threads, in turns. It prints requests a second, and µs
 * of the node's processor time for each. The load comes from wrk (Debian: apt-get install wrk),
 * which needs little processor time itself.
 * Usage: node bench/front-threads.ts [--fronts 1,2] [--rounds 5] [--seconds 5] [--connections 32]
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Server, startCommand } from './servers.ts'

const { values } = parseArgs({
  options: {
    fronts: { type: 'string', default: '1,2' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '32' },
  },
})
const rounds = Number(values.rounds)
const fronts = values.fronts.split(',')

const HOLDER = '0x70997970c51812dc3a010c7d01b50e0d17dc79c8'
/** A call of IDENTITY with unique data always reaches a worker. */
const CALL = (data: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x0000000000000000000000000000000000000004","data":"0x${data}"},"latest"]}`
const fixed = (method: string, params: readonly unknown[] = []) =>
  `wrk.body = [[${JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })}]]`
const ROWS = [
  { name: 'eth_chainId', script: fixed('eth_chainId') },
  { name: 'eth_getBalance', script: fixed('eth_getBalance', [HOLDER, 'latest']) },
  {
    name: 'eth_call, never the same',
    script: `local n = 0
local tag = string.format("%08x", math.random(0, 0x7fffffff))
request = function()
  n = n + 1
  return wrk.format(nil, nil, nil, [[${CALL('TAGNUMBER')}]]:gsub("TAGNUMBER", tag .. string.format("%08x", n)))
end`,
  },
] as const

type Sample = { readonly perSecond: number; readonly micros: number }
const folder = mkdtempSync(join(tmpdir(), 'flashnode-bench-cells-'))

function load(server: Server, script: string): Sample {
  const file = join(folder, 'request.lua')
  writeFileSync(
    file,
    `wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\n${script}\n`,
  )
  const before = server.cpuSeconds()
  const { stdout, status, stderr } = spawnSync(
    'wrk',
    ['-t1', `-c${values.connections}`, `-d${values.seconds}s`, '-s', file, server.url],
    { encoding: 'utf8' },
  )
  if (status !== 0) throw new Error(stderr)
  const responses = Number(/(\d+) requests in/.exec(stdout)![1])
  if (/Non-2xx/.test(stdout)) throw new Error(stdout)
  const perSecond = Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)![1])
  return { perSecond, micros: ((server.cpuSeconds() - before) * 1e6) / responses }
}

const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[all.length >> 1]!

const servers: Server[] = []
try {
  for (const front of fronts)
    servers.push(
      await startCommand(['dev', '--ephemeral', '--rate-limit', 'off', '--front-threads', front]),
    )
  const heads = fronts.flatMap((front) => [`${front}: requests/s`, `${front}: µs each`])
  console.log(`| | ${heads.join(' | ')} | µs, against the first |`)
  console.log(`|---|${'---|'.repeat(heads.length + 1)}`)
  for (const { name, script } of ROWS) {
    for (const server of servers) load(server, script)
    const samples = servers.map((): Sample[] => [])
    for (let round = 0; round < rounds; round++)
      for (const [at, server] of servers.entries()) samples[at]!.push(load(server, script))
    const fields = samples.flatMap((all) => [
      Math.round(median(all.map(({ perSecond }) => perSecond))).toLocaleString('en-US'),
      median(all.map(({ micros }) => micros)).toFixed(1),
    ])
    const [first, ...others] = samples
    const ratios = others.map((all) =>
      median(all.map(({ micros }, round) => micros / first![round]!.micros)).toFixed(2),
    )
    console.log(`| ${[name, ...fields, ratios.join(', ')].join(' | ')} |`)
  }
} finally {
  for (const server of servers) await server.stop()
  rmSync(folder, { recursive: true })
}
